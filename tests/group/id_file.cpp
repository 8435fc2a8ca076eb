// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/group/transport/nccl/id_file.hpp>

#include <doctest/doctest.h>
#include <support/files.hpp>
#include <support/forked.hpp>
#include <support/waiting.hpp>

#include <sys/types.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace group_id_file_test {
using namespace trireme;
using nccl_runtime::attendance;
using test_waiting::comes_true;
using exchange = nccl_runtime::id_exchange<128>;
using seconds = std::chrono::duration<double>;

struct folder : files::folder {
    std::string file() const { return path("id"); }
    bool empty() const { return std::filesystem::is_empty(path()); }
};

exchange::id_type id_of(int n) {
    exchange::id_type id;
    for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::byte>(static_cast<std::size_t>(n) + i);
    return id;
}

enum outcome : int { right = 0, wrong_id, usage, late, other };

outcome attend(attendance const& a, int id) {
    try {
        exchange e(a);
        if (a.index == 0) {
            e.give(id_of(id));
            return right;
        }
        return e.take() == id_of(id) ? right : wrong_id;
    } catch (usage_error const&) {
        return usage;
    } catch (deadline_error const&) {
        return late;
    } catch (...) {
        return other;
    }
}

template<class F>
pid_t in_process(F&& f) {
    pid_t const pid = ::fork();
    if (pid == 0) ::_exit(f());
    return pid;
}
int end_of(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

attendance process(int index, int count, int world, folder const& f, double limit = 20) {
    return {index, count, world, f.file(), seconds(limit)};
}

TEST_SUITE("group/id_file") {
    TEST_CASE("processes meet in any order, and leave nothing behind") {
        for (int round = 0; round < 6; ++round) {
            folder const f;
            std::vector<pid_t> pids;
            for (int k = 0; k < 4; ++k) {
                int const index = round % 2 == 0 ? k : 3 - k;
                pids.push_back(in_process([&] { return attend(process(index, 4, 8, f), 40 + round); }));
                if (round > 3) ::usleep(30000);
            }
            for (auto const pid : pids) CHECK(end_of(pid) == right);
            CHECK(f.empty());
        }
    }

    TEST_CASE("what an earlier run has left is not taken for this one's") {
        folder const f;
        std::vector<pid_t> pids; // a whole run that dies when everybody has met
        for (int k = 0; k < 3; ++k)
            pids.push_back(in_process([&] {
                exchange e(process(k, 3, 3, f));
                if (k == 0)
                    e.give(id_of(1));
                else
                    (void)e.take();
                ::_exit(0); // without its destructor, as a process that is killed
                return 0;
            }));
        for (auto const pid : pids) CHECK(end_of(pid) == 0);
        CHECK(std::filesystem::exists(f.file()));
        CHECK(std::filesystem::exists(f.file() + ".2"));
        CHECK(attend(process(1, 3, 3, f, 0.2), 1) == late); // the old id is there, and whole
        pids.clear();
        for (int const k : {2, 1, 0}) {
            pids.push_back(in_process([&] { return attend(process(k, 3, 3, f), 2); }));
            ::usleep(50000); // process 0 comes last: the others have looked at the old file for a while
        }
        for (auto const pid : pids) CHECK(end_of(pid) == right);
        CHECK(f.empty());
    }

    TEST_CASE("files that are torn, of others, or links are not read") {
        folder const f;
        std::ofstream(f.file()) << "not ours";
        std::ofstream(f.file() + ".1") << std::string(5000, 'x');
        std::vector<pid_t> pids;
        for (int const k : {1, 0}) pids.push_back(in_process([&] { return attend(process(k, 2, 2, f), 3); }));
        for (auto const pid : pids) CHECK(end_of(pid) == right);
        nccl_runtime::detail::write_record(f.file(), {});
        std::string whole(std::filesystem::file_size(f.file()), 0);
        std::ifstream(f.file(), std::ios::binary).read(whole.data(), static_cast<std::streamsize>(whole.size()));
        CHECK(nccl_runtime::detail::read_record(f.file()).has_value());
        for (std::size_t size = 0; size < whole.size(); ++size) {
            std::ofstream(f.file(), std::ios::binary).write(whole.data(), static_cast<std::streamsize>(size));
            CHECK_FALSE(nccl_runtime::detail::read_record(f.file()).has_value());
        }
        for (std::size_t bit = 0; bit < 8 * whole.size(); bit += 3) {
            auto flipped = whole;
            flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
            std::ofstream(f.file(), std::ios::binary) << flipped;
            CHECK_FALSE(nccl_runtime::detail::read_record(f.file()).has_value());
        }
        std::filesystem::remove(f.file());
        std::filesystem::create_symlink("/dev/zero", f.file());
        CHECK_FALSE(nccl_runtime::detail::read_record(f.file()).has_value());
        std::ofstream(f.file() + ".whole", std::ios::binary) << whole;
        CHECK(nccl_runtime::detail::read_record(f.file() + ".whole").has_value());
        std::filesystem::remove(f.file());
        std::filesystem::create_symlink("id.whole", f.file());
        CHECK_FALSE(nccl_runtime::detail::read_record(f.file()).has_value());
    }

    TEST_CASE("processes that differ in the size of the run are refused, with both sizes") {
        folder const f;
        auto const other = in_process([&] { return attend(process(1, 2, 4, f), 1); });
        CHECK_THROWS_WITH_AS(exchange(process(0, 2, 8, f)).give(id_of(1)),
                             doctest::Contains("process 1 was started for 4 ranks in 2 processes, and process 0 for 8 "
                                               "ranks in 2 processes"),
                             usage_error);
        CHECK(end_of(other) == usage);
        shared_value<std::atomic<bool>> gave_up, was_read;
        auto const first = in_process([&] { // knows of two only; its file is there until it has been read
            exchange e(process(0, 2, 2, f, 0.1));
            outcome found = right;
            try {
                e.give(id_of(1));
            } catch (deadline_error const&) {
                found = late;
            } catch (...) {
                found = outcome::other;
            }
            *gave_up = true;
            return comes_true([&] { return was_read->load(); }) ? found : outcome::other;
        });
        CHECK(comes_true([&] { return gave_up->load(); }));
        CHECK_THROWS_WITH_AS(exchange(process(2, 3, 3, f, 0.1)).take(), doctest::Contains("2 ranks in 2 processes"),
                             usage_error);
        *was_read = true;
        CHECK(end_of(first) == late);
    }

    TEST_CASE("who does not come is named, by the deadline") {
        folder const f;
        auto const other = in_process([&] { return attend(process(1, 3, 6, f), 1); });
        CHECK(comes_true([&] { return std::filesystem::exists(f.file() + ".1"); })); // it looks for the id
        auto const begin = std::chrono::steady_clock::now();
        CHECK_THROWS_WITH_AS(exchange(process(0, 3, 6, f, 2)).give(id_of(1)),
                             doctest::Contains("did not hear from process 2 "), deadline_error);
        CHECK(seconds(std::chrono::steady_clock::now() - begin).count() < 20);
        (void)end_of(other);
        auto const text = "rank 2 of 6 (process 1 of 3) did not find an id of this run through the id file " +
                          f.file() +
                          " within the deadline of 0.2 s: start all processes, with one id_file; if it is only slow, "
                          "raise the option `deadline`";
        CHECK_THROWS_WITH_AS(exchange(process(1, 3, 6, f, 0.2)).take(), text.c_str(), deadline_error);
        CHECK_THROWS_WITH_AS(exchange({1, 3, 6, "", seconds(1)}), doctest::Contains("no id_file"), usage_error);
        CHECK_THROWS_WITH_AS(exchange({1, 3, 6, f.path() + std::string("/id\0b", 5), seconds(1)}),
                             doctest::Contains("id\\0b\" has a zero byte"), usage_error);
        CHECK_THROWS_WITH_AS(exchange({1, 3, 6, "/no/such/folder/id", seconds(1)}).take(),
                             doctest::Contains("check that the folder exists"), data_error);
    }
}

} // namespace group_id_file_test
