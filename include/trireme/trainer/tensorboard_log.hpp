// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/path.hpp>
#include <trireme/trainer/log_file.hpp>
#include <trireme/trainer/report.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace trireme {

/// Options of tensorboard_log.
struct tensorboard_options {
    bool steps = false; ///< the loss of every step, too, beside those of epochs
};

namespace detail::tensorboard {

/// CRC-32C (Castagnoli, reflected) of all bytes.
constexpr std::uint32_t crc32c(std::string_view bytes) noexcept {
    constexpr auto table = [] {
        std::array<std::uint32_t, 256> t{};
        for (std::uint32_t i = 0; i < 256; ++i) {
            t[i] = i;
            for (int bit = 0; bit < 8; ++bit) t[i] = t[i] >> 1 ^ (t[i] & 1 ? 0x82F63B78u : 0);
        }
        return t;
    }();
    std::uint32_t crc = ~0u;
    for (char const c : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
    return ~crc;
}

/// TFRecord's form of it: a checksum of data that holds checksums says more if the inner ones are disguised.
constexpr std::uint32_t masked_crc32c(std::string_view bytes) noexcept {
    return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u;
}

/// Bytes of a message, without allocation: the few fields of protocol buffers that events have.
template<std::size_t Capacity>
class bytes {
public:
    std::string_view view() const noexcept { return {all_.data(), size_}; }

    void byte(std::uint64_t value) noexcept {
        if (size_ < Capacity) all_[size_++] = static_cast<char>(value & 0xFF);
    }
    void raw(std::string_view text) noexcept {
        for (char const c : text) byte(static_cast<unsigned char>(c));
    }
    /// Little-endian, as files and protocol buffers have it.
    template<class N>
    void fixed(N value) noexcept {
        for (std::size_t i = 0; i < sizeof(N); ++i) byte(value >> 8 * i);
    }
    void varint(std::uint64_t value) noexcept {
        for (; value > 0x7F; value >>= 7) byte(value | 0x80);
        byte(value);
    }
    void field(unsigned number, double value) noexcept {
        varint(number << 3 | 1u);
        fixed(std::bit_cast<std::uint64_t>(value));
    }
    void field(unsigned number, float value) noexcept {
        varint(number << 3 | 5u);
        fixed(std::bit_cast<std::uint32_t>(value));
    }
    void field(unsigned number, std::uint64_t value) noexcept {
        varint(number << 3);
        varint(value);
    }
    void field(unsigned number, std::string_view value) noexcept {
        varint(number << 3 | 2u);
        varint(value.size());
        raw(value);
    }

private:
    std::array<char, Capacity> all_;
    std::size_t size_ = 0;
};

/// The scalars of one moment: the message Summary, each of whose values has a tag and a float.
class summary {
public:
    void add(std::string_view tag, double value) noexcept {
        bytes<64> v;
        v.field(1, tag);
        v.field(2, static_cast<float>(value));
        all_.field(1, v.view());
    }
    std::string_view view() const noexcept { return all_.view(); }

private:
    bytes<512> all_;
};

using event = bytes<640>;

/// The message Event that a file begins with.
inline event first_event(double time) noexcept {
    event e;
    e.field(1, time);
    e.field(3, std::string_view("brain.Event:2"));
    return e;
}
/// The message Event with the scalars of a step.
inline event scalars_event(double time, std::uint64_t step, summary const& scalars) noexcept {
    event e;
    e.field(1, time);
    e.field(2, step);
    e.field(5, scalars.view());
    return e;
}

/// A message as a record of TFRecord: its length, and checksums of the length and of the message.
inline bytes<704> record(std::string_view message) noexcept {
    bytes<704> r;
    r.fixed(static_cast<std::uint64_t>(message.size()));
    r.fixed(masked_crc32c(r.view()));
    r.raw(message);
    r.fixed(masked_crc32c(message));
    return r;
}

/// The event file of one log: made in its folder, under a name that no other has, when the first event is added.
class event_file {
public:
    TRIREME_COLD explicit event_file(std::string folder) : folder_(std::move(folder)) {
        auto const& path = checked_path(folder_);
        for (auto end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1))
            ::mkdir(path.substr(0, end).c_str(), 0777); // an error shows below
        ::mkdir(path.c_str(), 0777);
        struct ::stat about = {};
        if (::stat(path.c_str(), &about) != 0) fail("the folder cannot be made", errno);
        if (!S_ISDIR(about.st_mode)) fail("the folder cannot be made", ENOTDIR);
        if (::access(path.c_str(), W_OK | X_OK) != 0) fail("no file can be made in the folder", errno);
    }

    void add(std::uint64_t step, summary const& scalars) {
        auto const time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
        if (!file_) begin(time);
        file_->add(record(scalars_event(time, step, scalars).view()).view());
    }

    std::uint64_t steps = 0, epochs = 0; ///< told so far, over all fits

private:
    TRIREME_COLD void begin(double time) {
        static std::atomic<unsigned> count{0};
        char host[256] = {};
        if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
        file_.emplace(folder_ + "/events.out.tfevents." + std::to_string(static_cast<std::uint64_t>(time)) + "." +
                          host + "." + std::to_string(::getpid()) + "." + std::to_string(count++),
                      false);
        file_->add(record(first_event(time).view()).view());
    }
    [[noreturn]] TRIREME_COLD void fail(char const* what, int number) const {
        throw data_error(folder_, std::string(what) + " (" + reason(number) +
                                      "): name a folder that may be written, or one whose parent may be");
    }

    std::string folder_;
    std::optional<log_file> file_;
};

} // namespace detail::tensorboard

/// An observer that writes event files, which TensorBoard shows: `tensorboard --logdir FOLDER`. After every epoch
/// loss/train, samples_per_second and, if there was a test, loss/test and, but for values, accuracy/test, by the number
/// of epochs that the log was told of; if asked for, loss/step by the number of steps. Scalars are floats. The folder
/// is made; a run should have one of its own. Copies share the file. Errors: data_error if the folder cannot be made or
/// written (when the log is made), or the file cannot be written.
class tensorboard_log {
public:
    explicit tensorboard_log(std::string folder, tensorboard_options const& o = {})
        : file_(std::make_shared<detail::tensorboard::event_file>(std::move(folder))), steps_(o.steps) {}

    void operator()(progress_report const& p) {
        auto const step = ++file_->steps;
        if (!steps_) return;
        detail::tensorboard::summary s;
        s.add("loss/step", p.loss);
        file_->add(step, s);
    }

    void operator()(epoch_report const& e) {
        detail::tensorboard::summary s;
        s.add("loss/train", e.loss);
        if (e.tested) {
            s.add("loss/test", e.test.loss);
            if (!std::isnan(e.test.accuracy)) s.add("accuracy/test", e.test.accuracy);
        }
        s.add("samples_per_second", e.samples_per_second);
        file_->add(++file_->epochs, s);
    }

private:
    std::shared_ptr<detail::tensorboard::event_file> file_;
    bool steps_;
};

} // namespace trireme
