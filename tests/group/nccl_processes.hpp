// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>
#include <support/files.hpp>
#include <support/left_out.hpp>

#include <fcntl.h>
#include <spawn.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

extern "C" char** environ;

// Several processes on one GPU, each a rank, which NCCL takes for several machines: so it lets them share the GPU, and
// they talk through sockets. A process is this program again, with one test case that is skipped otherwise: after a
// fork alone it could not use CUDA.

namespace nccl_test {

/// A process has been started in this role; `count` is 0 in the test itself.
struct role {
    int index = 0;
    int count = 0;
    std::string file;

    static role mine() {
        auto const* const text = std::getenv("TRIREME_NCCL_ROLE");
        if (text == nullptr) return {};
        role r;
        std::string const all = text;
        auto const a = all.find(' '), b = all.find(' ', a + 1);
        r.index = std::stoi(all.substr(0, a));
        r.count = std::stoi(all.substr(a + 1, b - a - 1));
        r.file = all.substr(b + 1);
        r.leave_mark();
        return r;
    }

    /// The process of this role shows that its test case runs: doctest ends well, too, where no case has the name.
    void leave_mark() const { std::ofstream(mark(file, index)) << "runs"; }
    static std::string mark(std::string const& file, int index) { return file + ".runs." + std::to_string(index); }

    /// Tells the test that there is no way to try it here, and why.
    void skip(std::string const& why) const { std::ofstream(file + ".skipped") << why; }
};

/// The processes of a run meet through a file.
struct folder : files::folder {
    std::string file() const { return path("id"); }
};

/// Ends the processes that a test has left.
class processes {
public:
    static constexpr int no_such_case = -2; ///< the end of a process that has run no test case

    processes(char const* test_case, int count, folder const& f) : file_(f.file()) {
        for (int k = 0; k < count; ++k) {
            std::vector<std::string> environment;
            for (char** e = environ; *e != nullptr; ++e) environment.emplace_back(*e);
            for (auto const& [name, value] : std::vector<std::pair<std::string, std::string>>{
                     {"NCCL_HOSTID", "trireme-test-" + std::to_string(k)},
                     {"NCCL_P2P_DISABLE", "1"},
                     {"NCCL_SHM_DISABLE", "1"},
                     {"NCCL_IB_DISABLE", "1"},
                     {"NCCL_SOCKET_IFNAME", "lo"},
                     {"TRIREME_NCCL_ROLE", std::to_string(k) + " " + std::to_string(count) + " " + f.file()}})
                environment.push_back(name + "=" + value);
            std::vector<std::string> arguments{"/proc/self/exe", "--no-skip", "--minimal",
                                               std::string("--test-case=") + test_case};
            std::vector<char*> argv, envp;
            for (auto& a : arguments) argv.push_back(a.data());
            for (auto& e : environment) envp.push_back(e.data());
            argv.push_back(nullptr);
            envp.push_back(nullptr);
            pid_t pid = 0;
            REQUIRE(::posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv.data(), envp.data()) == 0);
            pids_.push_back(pid);
        }
    }
    processes(processes const&) = delete;
    processes& operator=(processes const&) = delete;
    ~processes() {
        for (auto const pid : pids_)
            if (pid > 0) {
                ::kill(pid, SIGKILL);
                ::waitpid(pid, nullptr, 0);
            }
    }

    /// The exit code of process k; 128 + the signal that ended it; -1 if it is still there after `seconds`;
    /// `no_such_case` if it has ended well without a mark.
    int end_of(std::size_t k, int seconds) {
        auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
        for (int status = 0; std::chrono::steady_clock::now() < limit;) {
            if (::waitpid(pids_[k], &status, WNOHANG) == pids_[k]) {
                pids_[k] = 0;
                if (!WIFEXITED(status)) return 128 + WTERMSIG(status);
                bool const ran = std::filesystem::exists(role::mark(file_, static_cast<int>(k)));
                return WEXITSTATUS(status) == 0 && !ran ? no_such_case : WEXITSTATUS(status);
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return -1;
    }

private:
    std::string file_;
    std::vector<pid_t> pids_;
};

/// True if a process of a run has said that there is no way to try it here; then the test says so, and is over.
inline bool skipped(folder const& f) {
    std::ifstream in(f.file() + ".skipped");
    if (!in) return false;
    std::string const why((std::istreambuf_iterator<char>(in)), {});
    return test_support::left_out(true, "NCCL says " + why);
}

} // namespace nccl_test
