// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

// Processes that are killed at a system call, or find that it fails: what a loss of power, a full disk or an operator
// do at the worst moment.
namespace test_system_calls {

struct traced_end {
    int calls = 0;       ///< stops of the process so far: before and behind each call
    bool killed = false; ///< at the stop that was asked for; else it has ended by itself
    bool failed = false; ///< the call that was to fail has been made
    int code = -1;       ///< its exit code
};

#if defined(__x86_64__)
inline constexpr bool can_fail_calls = true;

/// Calls about files that a program may see fail.
inline bool is_about_files(unsigned long long call) {
    switch (call) {
    case SYS_openat:
    case SYS_open:
    case SYS_write:
    case SYS_pread64:
    case SYS_fsync:
    case SYS_rename:
    case SYS_mkdir:
    case SYS_flock:
    case SYS_dup:
    case SYS_fstat:
    case SYS_stat:
    case SYS_lstat:
    case SYS_newfstatat:
    case SYS_getdents64:
    case SYS_unlink:
    case SYS_unlinkat:
        return true;
    default:
        return false;
    }
}
#else
inline constexpr bool can_fail_calls = false;
#endif

/// Runs `f()` in a forked process, which ends with the code that f returns. It is killed at its `kill_at`-th stop, or
/// finds that its `fail_at`-th call about files has failed with `error`. Counted from 1; 0: never.
template<class F>
traced_end run_traced(F const& f, int kill_at, [[maybe_unused]] int fail_at = 0, [[maybe_unused]] int error = 0) {
    std::fflush(nullptr);
    auto const child = ::fork();
    if (child < 0) throw std::runtime_error("fork failed");
    if (child == 0) {
        if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
        ::raise(SIGSTOP);
        int code = 99;
        try {
            code = f();
        } catch (...) {}
        ::_exit(code);
    }
    traced_end end;
    int status = 0;
    auto const next = [&] { return ::waitpid(child, &status, 0) == child; };
    if (!next() || !WIFSTOPPED(status)) throw std::runtime_error("processes cannot be traced here");
    ::ptrace(PTRACE_SETOPTIONS, child, nullptr, reinterpret_cast<void*>(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    [[maybe_unused]] int about_files = 0;
    bool entering = true, fails = false;
    std::uintptr_t signal = 0;
    while (::ptrace(PTRACE_SYSCALL, child, nullptr, reinterpret_cast<void*>(signal)) == 0 && next()) {
        signal = 0;
        if (WIFEXITED(status)) {
            end.code = WEXITSTATUS(status);
            return end;
        }
        if (WIFSIGNALED(status)) throw std::runtime_error("a signal ended the traced process");
        if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
            signal = static_cast<std::uintptr_t>(WSTOPSIG(status));
            continue;
        }
        if (++end.calls == kill_at) {
            ::kill(child, SIGKILL);
            next();
            end.killed = true;
            return end;
        }
#if defined(__x86_64__)
        ::user_regs_struct registers{};
        ::ptrace(PTRACE_GETREGS, child, nullptr, &registers);
        if (entering && is_about_files(registers.orig_rax) && ++about_files == fail_at) {
            registers.orig_rax = ~0ull; // no call at all
            fails = end.failed = true;
            ::ptrace(PTRACE_SETREGS, child, nullptr, &registers);
        } else if (!entering && fails) {
            registers.rax = static_cast<unsigned long long>(-error);
            fails = false;
            ::ptrace(PTRACE_SETREGS, child, nullptr, &registers);
        }
#endif
        entering = !entering;
    }
    throw std::runtime_error("the traced process was lost");
}

} // namespace test_system_calls
