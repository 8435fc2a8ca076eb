// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/digest.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/path.hpp>
#include <trireme/core/regular_file.hpp>
#include <trireme/core/replaced_file.hpp>
#include <trireme/group/late.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace trireme::nccl_runtime {

// Processes of a run find one another through a file that all of them see, and one more per process beside it.
//
// - Process k writes FILE.k: a number drawn for this run, and how large it takes the run to be.
// - Process 0 writes FILE: NCCL's id, a number drawn for it, and the numbers that it has found in the files of the
//   others; again whenever one of these changes.
// - Process k believes FILE when its own number is in it, and only then; and answers in FILE.k with the number of FILE.
// - Process 0 goes on when everyone has answered.
//
// So a file that an earlier run has left behind is never taken for one of this run, whatever the clocks say: the
// numbers are not those of this run. Nothing has to be removed before a run; afterwards every process removes what it
// has written. Two runs at a time need two names. Files are written beside their place, synchronised, and put there by
// a rename, so that nobody reads half of one.

/// A process of a run, by its number; the numbers of processes and ranks; and the time to wait for the others.
struct attendance {
    int index = 0;
    int count = 1;
    int world = 1;
    std::string file = {};
    std::chrono::duration<double> limit{30};
    /// If there is one: shares what process 0 has, with no file. All processes call it together.
    void (*share)(std::intptr_t with, void* data, std::size_t bytes) = nullptr;
    std::intptr_t with = 0;
};

namespace detail {

struct id_header {
    char magic[16] = {'t', 'r', 'i', 'r', 'e', 'm', 'e', ' ', 'n', 'c', 'c', 'l', ' ', 'i', 'd', '1'};
    std::int32_t count = 0;
    std::int32_t world = 0;
    std::uint64_t created = 0; ///< seconds since 1970, for people
    std::uint64_t run = 0;     ///< drawn by the writer
    std::uint64_t answers = 0; ///< FILE.k: the number of the FILE that is believed
    std::uint64_t sum = 0;     ///< of all that follows, and of what is before

    bool is_ours() const noexcept { return std::memcmp(magic, id_header{}.magic, sizeof magic) == 0; }
};
static_assert(std::is_trivially_copyable_v<id_header>);

inline std::uint64_t checksum(id_header h, std::vector<std::byte> const& body) noexcept {
    h.sum = 0;
    return digest_of(body, digest_of(std::as_bytes(std::span(&h, 1))));
}

struct id_record {
    id_header header = {};
    std::vector<std::byte> body = {};
};

TRIREME_COLD inline void write_record(std::string const& path, id_record r) {
    r.header.sum = checksum(r.header, r.body);
    trireme::detail::replaced_file file(path, 0600);
    file.write(std::as_bytes(std::span(&r.header, 1)));
    file.write(r.body);
    file.put_in_place();
}

/// Nothing if there is no such file, or none that is whole and of ours: another process may be about to replace it. A
/// link is not followed.
inline std::optional<id_record> read_record(std::string const& path) {
    constexpr std::uint64_t most = 1 << 20;
    if (::access(path.c_str(), F_OK) != 0) return std::nullopt; // the usual case at first
    id_record r;
    try {
        trireme::detail::regular_file const file(path, O_NOFOLLOW);
        if (file.size() < sizeof r.header || file.size() > most) return std::nullopt;
        file.read(0, std::as_writable_bytes(std::span(&r.header, 1)));
        r.body.resize(static_cast<std::size_t>(file.size()) - sizeof r.header);
        file.read(sizeof r.header, r.body);
    } catch (data_error const&) { // it has been removed, or cannot be read yet
        return std::nullopt;
    }
    if (!r.header.is_ours() || r.header.sum != checksum(r.header, r.body)) return std::nullopt;
    return r;
}

inline std::uint64_t draw() {
    std::random_device device;
    auto const word = [&] { return static_cast<std::uint64_t>(device()); };
    auto const now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    auto const drawn = (word() << 32 | word()) ^ now ^ static_cast<std::uint64_t>(::getpid()) << 48;
    return drawn == 0 ? 1 : drawn; // 0 says: nobody
}

} // namespace detail

/// One process's part. The files go with the object: keep it until everybody has what the id is for.
template<std::size_t IdBytes>
class id_exchange {
public:
    using id_type = std::array<std::byte, IdBytes>;

    explicit id_exchange(attendance a) : a_(std::move(a)), run_(detail::draw()) {
        if (a_.file.empty())
            throw usage_error("processes: " + std::to_string(a_.count) +
                              " were given, and no id_file: name a file that all of them see, by which they find one "
                              "another");
        checked_path(a_.file);
    }
    id_exchange(id_exchange const&) = delete;
    id_exchange& operator=(id_exchange const&) = delete;
    ~id_exchange() {
        if (wrote_ && !answered_) ::unlink(mine().c_str()); // an answer is for process 0 to read, and to remove
        for (std::size_t k = 1; a_.index == 0 && k < static_cast<std::size_t>(a_.count); ++k)
            if (answer_of(k)) ::unlink(file_of(k).c_str());
    }

    /// Process 0: hands `id` to all others.
    void give(id_type const& id) {
        auto const limit = deadline::in(a_.limit);
        auto const others = static_cast<std::size_t>(a_.count);
        std::vector<std::uint64_t> seen(others, 0);
        for (bool first = true;; first = false) {
            bool changed = first, everyone = true;
            for (std::size_t k = 1; k < others; ++k) {
                auto const r = detail::read_record(file_of(k));
                auto const theirs = r ? r->header.run : 0;
                changed = changed || theirs != seen[k];
                seen[k] = theirs;
                bool const answered = r && r->header.answers == run_;
                if (answered) agree(r->header, static_cast<int>(k));
                everyone = everyone && answered;
            }
            if (everyone) return;
            if (changed) {
                auto r = record(0);
                r.body.assign(id.begin(), id.end());
                auto const* const numbers = reinterpret_cast<std::byte const*>(seen.data());
                r.body.insert(r.body.end(), numbers, numbers + others * sizeof seen[0]);
                write(r);
            }
            if (limit.passed()) {
                std::string missing;
                int first_missing = 0;
                for (std::size_t k = 1; k < others; ++k) {
                    if (answer_of(k)) continue;
                    if (missing.empty()) first_missing = static_cast<int>(k);
                    missing += (missing.empty() ? "" : ", ") + std::to_string(k);
                }
                if (!missing.empty()) late(first_rank(first_missing), "hear from process " + missing);
            }
            pause();
        }
    }

    /// The others: the id that process 0 hands out.
    id_type take() {
        auto const limit = deadline::in(a_.limit);
        auto const index = static_cast<std::size_t>(a_.index);
        std::string stranger; // of another size, and not known to be of this run
        while (true) {
            if (auto const r = detail::read_record(mine()); !r || r->header.run != run_) write(record(0));
            if (auto const r = detail::read_record(a_.file)) {
                auto const numbers = IdBytes + (index + 1) * sizeof(std::uint64_t);
                std::uint64_t mine = 0;
                if (r->body.size() >= numbers)
                    std::memcpy(&mine, r->body.data() + IdBytes + index * sizeof mine, sizeof mine);
                if (mine == run_) {
                    write(record(r->header.run)); // also if they do not agree, so that process 0 learns of it
                    answered_ = true;
                    agree(r->header, 0);
                    id_type id;
                    std::memcpy(id.data(), r->body.data(), IdBytes);
                    return id;
                }
                stranger.clear();
                if (r->header.count != a_.count || r->header.world != a_.world) stranger = sizes(r->header);
            }
            if (limit.passed()) {
                if (!stranger.empty())
                    throw usage_error("id file " + a_.file + " is for " + stranger + ", and process " +
                                      std::to_string(a_.index) + " was started for " + own_sizes() +
                                      ": start all processes with the same mesh and the same number of processes");
                late(0, "find an id of this run");
            }
            pause();
        }
    }

private:
    detail::id_record record(std::uint64_t answers) const {
        detail::id_record r;
        r.header.count = a_.count;
        r.header.world = a_.world;
        r.header.created = static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
                .count());
        r.header.run = run_;
        r.header.answers = answers;
        return r;
    }
    void write(detail::id_record const& r) {
        detail::write_record(mine(), r);
        wrote_ = true;
    }
    std::string file_of(std::size_t process) const { return a_.file + "." + std::to_string(process); }
    std::string mine() const { return a_.index == 0 ? a_.file : file_of(static_cast<std::size_t>(a_.index)); }
    bool answer_of(std::size_t process) const {
        auto const r = detail::read_record(file_of(process));
        return r && r->header.answers == run_;
    }
    int first_rank(int process) const noexcept { return a_.world / a_.count * process; }

    static std::string sizes(detail::id_header const& h) {
        return std::to_string(h.world) + " ranks in " + std::to_string(h.count) + " processes";
    }
    std::string own_sizes() const {
        return std::to_string(a_.world) + " ranks in " + std::to_string(a_.count) + " processes";
    }

    /// Throws usage_error if another process of this run was started for another number of ranks or processes.
    void agree(detail::id_header const& h, int process) const {
        if (h.count == a_.count && h.world == a_.world) return;
        throw usage_error("process " + std::to_string(process) + " was started for " + sizes(h) + ", and process " +
                          std::to_string(a_.index) + " for " + own_sizes() +
                          ": start all processes with the same mesh and the same number of processes");
    }

    TRIREME_COLD [[noreturn]] void late(int rank, std::string const& did) const {
        throw deadline_error(
            rank,
            late_text("rank " + std::to_string(first_rank(a_.index)) + " of " + std::to_string(a_.world) +
                          " (process " + std::to_string(a_.index) + " of " + std::to_string(a_.count) + ")",
                      did + " through the id file " + a_.file, a_.limit, "start all processes, with one id_file"));
    }
    static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

    attendance a_;
    std::uint64_t run_;
    bool wrote_ = false;
    bool answered_ = false;
};

} // namespace trireme::nccl_runtime
