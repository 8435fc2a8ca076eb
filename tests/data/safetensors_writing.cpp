// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files that are written beside their place: synchronised, and cleared away behind writers that were killed.

#include <trireme/data/fashion_mnist.hpp>
#include <trireme/data/safetensors.hpp>

#include "safetensors_files.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace data_safetensors_writing_test {
namespace {

using namespace safetensors_files;
using trireme::safetensors_file;
using trireme::write_safetensors;
using dtype = trireme::safetensors_dtype;

std::size_t files_in(files::folder const& folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

/// While it lives, it sees the calls of fsync in this program, and can make one of them fail.
class synchronisations {
public:
    struct call {
        bool of_folder = false;
        std::uintmax_t bytes = 0;         ///< of what is synchronised
        std::uintmax_t bytes_at_path = 0; ///< of the file that the test is about, at this moment
    };

    explicit synchronisations(std::string path, std::size_t fails = ~std::size_t{0}, int with = 0)
        : path_(std::move(path)), fails_(fails), with_(with) {
        now = this;
    }
    synchronisations(synchronisations const&) = delete;
    synchronisations& operator=(synchronisations const&) = delete;
    ~synchronisations() { now = nullptr; }

    std::vector<call> const& all() const { return all_; }

    int of(int file) {
        struct ::stat about = {};
        ::fstat(file, &about);
        all_.push_back(
            {S_ISDIR(about.st_mode), static_cast<std::uintmax_t>(about.st_size), std::filesystem::file_size(path_)});
        if (all_.size() - 1 != fails_) return 0;
        errno = with_;
        return -1;
    }

    static inline synchronisations* now = nullptr;

private:
    std::string path_;
    std::size_t fails_;
    int with_;
    std::vector<call> all_ = {};
};

} // namespace

/// Instead of the C library's, for the whole program.
extern "C" int fsync(int file) {
    if (synchronisations::now != nullptr && synchronisations::now->of(file) != 0) return -1;
    return static_cast<int>(::syscall(SYS_fsync, file));
}

TEST_SUITE("data/safetensors: writing") {
    TEST_CASE("the file is synchronised before it is put in its place, and its folder after it") {
        files::folder const folder;
        auto const path = folder.write("file", {1, 2, 3});
        std::vector<float> const values = {1};
        auto const write = [&] { write_safetensors(path, {{"a", dtype::f32, {1}, raw(values)}}); };
        {
            synchronisations const seen(path);
            write();
            REQUIRE(seen.all().size() == 2);
            CHECK_FALSE(seen.all()[0].of_folder);
            CHECK(seen.all()[0].bytes_at_path == 3); // the old file is still there
            CHECK(seen.all()[1].of_folder);
            CHECK(seen.all()[1].bytes_at_path == seen.all()[0].bytes);
        }
        bytes const old = content_of(path);
        std::vector<float> const others = {1, 2};
        auto const write_others = [&] { write_safetensors(path, {{"b", dtype::f32, {2}, raw(others)}}); };
        {
            synchronisations const failing(path, 0, EIO);
            auto const said = [&] {
                try {
                    write_others();
                } catch (trireme::data_error const& error) {
                    return std::string(error.what());
                }
                return std::string("written");
            }();
            CHECK_MESSAGE(said.find("cannot be synchronised (Input/output error)") != std::string::npos, said);
            CHECK(content_of(path) == old);
            CHECK(files_in(folder) == 1);
        }
        {
            synchronisations const failing(path, 1, EIO); // of the folder
            CHECK_THROWS_WITH_AS(write_others(), doctest::Contains("a loss of power may undo it"), trireme::data_error);
            CHECK(safetensors_file(path).find("b") != nullptr);
        }
        for (int const none : {EINVAL, ENOTSUP}) { // of file systems that have no such thing for a folder
            synchronisations const failing(path, 1, none);
            CHECK_NOTHROW(write());
        }
    }

    TEST_CASE("what killed writers have left behind is removed by the next write; what a living one writes stays") {
        files::folder const folder;
        auto const path = folder.path("file");
        std::vector<float> const values(10'000, 1);
        auto const write = [&] { write_safetensors(path, {{"a", dtype::f32, {10'000}, raw(values)}}); };
        auto const started = [&](auto f) {
            auto const process = ::fork();
            if (process == 0) {
                try {
                    f();
                    ::_exit(0);
                } catch (...) {
                    ::_exit(1);
                }
            }
            return process;
        };
        auto const ended = [](::pid_t process) {
            int how = 0;
            ::waitpid(process, &how, 0);
            return how;
        };
        ::rlim_t const full = 20'000;
        auto const killed = started([&] {
            ::rlimit const limit{full, full};
            ::setrlimit(RLIMIT_FSIZE, &limit);
            ::signal(SIGXFSZ, SIG_DFL);
            write(); // killed in the middle, by the signal
        });
        CHECK(WIFSIGNALED(ended(killed)));
        REQUIRE(files_in(folder) == 1);
        auto const not_ours = folder.write(".trireme-mine.new", {1});

        // a writer that stands still in the middle; its file is there for as long as it lives
        auto const living = started([&] {
            trireme::detail::replaced_file file(folder.path("other"));
            ::raise(SIGSTOP);
            file.write(raw(values));
            file.put_in_place();
        });
        int status = 0;
        REQUIRE(::waitpid(living, &status, WUNTRACED) == living);
        REQUIRE(WIFSTOPPED(status));
        CHECK(files_in(folder) == 2); // as it began, it has removed that of the killed one
        write();
        CHECK(files_in(folder) == 3);
        ::kill(living, SIGCONT);
        CHECK(ended(living) == 0);
        CHECK(content_of(folder.path("other")).size() == 40'000);
        CHECK(content_of(not_ours) == bytes{1});
        CHECK(files_in(folder) == 3);
    }

    TEST_CASE("a path with a zero byte is refused, not cut short") {
        files::folder const folder;
        auto const cut = folder.path("file");
        std::vector<float> const values = {1};
        write_safetensors(cut, {{"a", dtype::f32, {1}, raw(values)}});
        auto const before = content_of(cut);
        auto const path = cut + std::string("\0.safetensors", 13);
        auto const words = "file\\0.safetensors\" has a zero byte behind its first " + std::to_string(cut.size());
        files::expect_usage_error([&] { safetensors_file const file(path); }, words);
        files::expect_usage_error([&] { write_safetensors(path, {}); }, words);
        files::expect_usage_error([&] { trireme::gzip_file const file(path); }, words);
        files::expect_usage_error([&] { trireme::fashion_mnist::load(folder.path() + std::string("\0b", 2)); },
                                  "zero byte");
        CHECK(content_of(cut) == before);
        CHECK(files_in(folder) == 1);
    }

    TEST_CASE("a file without a name is refused before it is written") {
        files::expect_usage_error([&] { write_safetensors("", {}); }, "the path of the file to be written is empty");
    }
}

} // namespace data_safetensors_writing_test
