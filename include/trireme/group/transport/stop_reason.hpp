// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/digest.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/floats.hpp>
#include <trireme/group/running.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// A text of bounded length, without a pointer: for memory that processes share, and for messages between them. Its
/// reader cannot overrun it, whatever the writer has done.
template<std::size_t N>
struct bounded_text {
    char text[N] = {};
    void set(std::string_view s) noexcept {
        auto const n = std::min(s.size(), N - 1);
        if (n != 0) std::memcpy(text, s.data(), n); // an empty one may have no address
        std::memset(text + n, 0, N - n);
    }
    std::string get() const { return std::string(text, strnlen(text, N - 1)); }
};

/// The description of a program that all ranks of a group must share: parts, separated by "; ". A text that is too long
/// is cut, and ends with a digest of all of it.
struct agreed_text : bounded_text<4000> {
    static constexpr std::size_t most = sizeof text;
    void set(std::string_view s) {
        if (s.size() < most) return bounded_text::set(s);
        auto const end = "... and so on, with digest " + digest_text(digest_of(std::as_bytes(std::span(s))));
        bounded_text::set(std::string(s.substr(0, most - 1 - end.size())) + end);
    }
};

/// The message of a rank whose program has caught an exception that ended a collective, and goes on.
inline constexpr char const* given_up_collective =
    "a collective of this group was given up after an exception: make a new group";

/// The message that others hear of a rank that leaves its group by an exception which they have not had.
inline constexpr char const* taken_away = "an exception outside of its group took it away: see its own message";

/// Why a group of processes was stopped: an exception in a form that other processes can throw again.
struct stop_reason {
    enum class kind : int { unknown, deadline, mismatch, lost, failed };
    kind what = kind::unknown;
    int rank = -1; ///< who is to blame
    std::uint64_t step = 0;
    bounded_text<1000> text;

    /// Of an exception that was thrown on `rank`.
    static stop_reason of(int rank, std::exception_ptr const& why) noexcept {
        try {
            std::rethrow_exception(why);
        } catch (peer_lost_error const& e) {
            return made(kind::lost, e.device(), e.step(), e.what());
        } catch (deadline_error const& e) {
            return made(kind::deadline, e.device(), 0, e.what());
        } catch (mismatch_error const& e) {
            return made(kind::mismatch, rank, 0, e.what());
        } catch (device_error const& e) { // which begins with "device N: ", and will again
            auto const* const text = std::strstr(e.what(), ": ");
            return made(kind::failed, e.device(), 0, text == nullptr ? e.what() : text + 2);
        } catch (std::exception const& e) {
            return made(kind::failed, rank, 0, e.what());
        } catch (...) {
            return made(kind::failed, rank, 0, not_a_standard_exception);
        }
    }
    static stop_reason made(kind what, int rank, std::uint64_t step, std::string_view text) noexcept {
        stop_reason r;
        r.what = what;
        r.rank = rank;
        r.step = step;
        r.text.set(text);
        return r;
    }

    [[noreturn]] TRIREME_COLD void raise() const {
        auto const said = text.get();
        switch (what) {
        case kind::deadline:
            throw deadline_error(rank, said);
        case kind::mismatch:
            throw mismatch_error(said);
        case kind::lost:
            throw peer_lost_error(rank, step, said);
        case kind::failed:
            throw device_error(rank, nullptr, said);
        default:
            throw device_error(rank, nullptr, "the group was stopped, and the rank that did so has not said why");
        }
    }
};

/// Runs `f()` on `rank`. An exception is handed to `stop` for the other ranks, and thrown on by throw_of_rank.
template<class F, class Stop>
void run_or_stop(int rank, F&& f, Stop&& stop) {
    try {
        f();
    } catch (...) {
        auto const why = std::current_exception();
        stop(stop_reason::of(rank, why));
        throw_of_rank(rank, why);
    }
}

/// The `run` of a group of processes: after a failure a rank runs nothing more.
class runs_until_failure {
public:
    /// True if an error has been thrown here.
    bool failed() const noexcept { return failed_; }

    /// `f(comm)` on `rank`; an error is handed to `stop` (run_or_stop), and is the last.
    template<class Communicator, class F, class Stop>
    void run(int rank, Communicator& comm, F&& f, Stop&& stop) {
        if (failed_)
            throw usage_error("this group was stopped by an earlier error and cannot run again: make a new one");
        one_run_([&] {
            run_or_stop(
                rank,
                [&] {
                    comm.check_stopped(); // by another rank, in the meantime
                    with_default_floats([&] { call_with(comm, f); });
                    comm.check_stopped(); // by `f`, in a way that it has not thrown
                },
                [&](stop_reason const& why) {
                    failed_ = true;
                    stop(why);
                });
        });
    }

    own_process const& process() const noexcept { return one_run_.process(); }

private:
    bool failed_ = false;
    one_run one_run_;
};

/// Throws launch_error unless two ranks agree in what the program is and how it is spread (agreed_text). The first part
/// in which they differ is said first, then both descriptions. `each`: what the numbers are of.
TRIREME_COLD inline void require_one_program(int rank, std::string const& mine, int other, std::string const& theirs,
                                             char const* each = "rank") {
    if (theirs == mine) return;
    std::string const all_mine = mine + "; ", all_theirs = theirs + "; "; // so that every part has an end
    std::size_t begin = 0;
    for (std::size_t i = 0; i + 1 < all_mine.size() && i + 1 < all_theirs.size() && all_mine[i] == all_theirs[i]; ++i)
        if (all_mine.compare(i, 2, "; ") == 0 && all_theirs[i + 1] == ' ') begin = i + 2;
    auto const part = [begin](std::string const& all) {
        return begin == all.size() ? "nothing more" : all.substr(begin, all.find("; ", begin) - begin);
    };
    auto const name = [each](int r) { return std::string(each) + " " + std::to_string(r); };
    throw launch_error("the processes of this job are not of one program: " + name(rank) + " has " + part(all_mine) +
                       ", " + name(other) + " has " + part(all_theirs) +
                       "; start one program, with one set of flags, in all processes\n  " + name(rank) + ": " + mine +
                       "\n  " + name(other) + ": " + theirs);
}

} // namespace trireme
