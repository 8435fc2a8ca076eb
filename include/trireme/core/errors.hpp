// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <charconv>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <trireme/core/macros.hpp>
#include <utility>

namespace trireme {

// Errors may arise after the compiler has agreed. Every message names the thing, the rule and the remedy.

/// "1.5": for messages about deadlines.
inline std::string seconds_text(std::chrono::duration<double> span) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", span.count());
    return text;
}

/// A number in the fewest digits that tell it from all others of its type: "0.1".
template<std::floating_point T>
std::string number_text(T value) {
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

/// An option, flag or argument that breaks a rule: a batch of 0, more devices than samples, a batch above the plan.
class usage_error : public std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

/// A file that is missing or does not hold what its format promises. `offset` is the byte at which reading stopped.
class data_error : public std::runtime_error {
public:
    TRIREME_COLD data_error(std::string path, std::uint64_t offset, std::string const& what)
        : std::runtime_error(path + ", byte " + std::to_string(offset) + ": " + what), path_(std::move(path)),
          offset_(offset) {}
    /// Of the whole file, or of a folder.
    TRIREME_COLD data_error(std::string path, std::string const& what)
        : std::runtime_error(path + ": " + what), path_(std::move(path)), offset_(0) {}

    std::string const& path() const noexcept { return path_; }
    std::uint64_t offset() const noexcept { return offset_; }

private:
    std::string path_;
    std::uint64_t offset_;
};

/// A wait that outlived its deadline. `device` is the one that did not arrive, found by following who waits for whom.
class deadline_error : public std::runtime_error {
public:
    deadline_error(int device, std::string const& what) : std::runtime_error(what), device_(device) {}
    int device() const noexcept { return device_; }

private:
    int device_;
};

/// A rank that is gone: its process has ended without leaving the group, or has left while others wait for it.
class peer_lost_error : public std::runtime_error {
public:
    peer_lost_error(int device, std::uint64_t step, std::string const& what)
        : std::runtime_error(what), device_(device), step_(step) {}

    int device() const noexcept { return device_; }
    std::uint64_t step() const noexcept { return step_; } ///< the training step that it was in

private:
    int device_;
    std::uint64_t step_;
};

/// A launch that does not fit the program: as many processes as the mesh has devices are needed, all of one program;
/// or a device, or the library itself, needs a thread, and the system refuses one.
class launch_error : public usage_error {
    using usage_error::usage_error;
};

/// The ranks of a group have called different collectives, or one with different arguments. Thrown on all of them; the
/// text shows two that differ.
class mismatch_error : public std::logic_error {
    using std::logic_error::logic_error;
};

/// The first exception thrown on a device of a group; `cause` is the exception itself. The other devices were stopped.
class device_error : public std::runtime_error {
public:
    TRIREME_COLD device_error(int device, std::exception_ptr cause, std::string const& what)
        : std::runtime_error("device " + std::to_string(device) + ": " + what), device_(device),
          cause_(std::move(cause)) {}

    int device() const noexcept { return device_; }
    std::exception_ptr cause() const noexcept { return cause_; }

private:
    int device_;
    std::exception_ptr cause_;
};

/// A training whose loss is no finite number: thrown by the trainer behind the step, on all of its processes, and the
/// trainer works on. `intact`: weights, running statistics and the optimizer's numbers are those of the step before.
class divergence_error : public std::runtime_error {
public:
    TRIREME_COLD divergence_error(std::uint64_t step, double loss, bool intact)
        : std::runtime_error(
              "the loss of training step " + std::to_string(step) + " is " +
              (loss == loss ? number_text(loss) : std::string("nan")) + // without the sign that some NaN have
              (intact
                   ? ": the weights are those of the step before. "
                   : ": the weights have been changed by it, and the optimizer's numbers with them; load weights that "
                     "you kept into a new trainer. ") +
              "Lower learning_rate, add clip_norm, or look for samples that are not finite"),
          step_(step), loss_(loss), intact_(intact) {}

    std::uint64_t step() const noexcept { return step_; }
    double loss() const noexcept { return loss_; }
    bool intact() const noexcept { return intact_; }

private:
    std::uint64_t step_;
    double loss_;
    bool intact_;
};

inline constexpr char const* not_a_standard_exception = "an exception that is not derived from std::exception";

/// Throws what has ended the work of `rank`: errors that name a rank, or concern all of them, as they are, anything
/// else as a device_error of that rank. `where`: behind its text.
[[noreturn]] TRIREME_COLD inline void throw_of_rank(int rank, std::exception_ptr const& why,
                                                    std::string const& where = {}) {
    try {
        std::rethrow_exception(why);
    } catch (deadline_error const&) {
        throw;
    } catch (peer_lost_error const&) {
        throw;
    } catch (mismatch_error const&) {
        throw;
    } catch (device_error const&) {
        throw;
    } catch (std::exception const& e) {
        throw device_error(rank, why, e.what() + where);
    } catch (...) {
        throw device_error(rank, why, not_a_standard_exception + where);
    }
}

/// Thrown on a device that waits for a group which has been stopped. It never reaches the caller: the reason does.
class group_stopped : public std::exception {
public:
    char const* what() const noexcept override { return "the group was stopped by another device"; }
};

} // namespace trireme
