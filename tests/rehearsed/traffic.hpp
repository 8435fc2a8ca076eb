// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/rehearsal.hpp>

#include <cxxabi.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Nodes of a rehearsed step, and the bytes of device memory that each of them reads and writes, observed page by page.
namespace rehearsed {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TRIREME_TEST_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TRIREME_TEST_SANITIZED
#endif

/// True where a fault says whether it was a write, and no sanitizer is in between.
#if defined(__linux__) && defined(__x86_64__) && !defined(TRIREME_TEST_SANITIZED)
inline constexpr bool traffic_can_be_seen = true;
inline bool was_a_write(void const* context) {
    return (static_cast<ucontext_t const*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
}
#else
inline constexpr bool traffic_can_be_seen = false;
inline bool was_a_write(void const*) { return false; }
#endif

/// Nodes, and the bytes that they read and write.
struct moved_bytes {
    std::size_t nodes = 0, read = 0, written = 0; ///< read, written: bytes
    void operator+=(moved_bytes const& other) {
        nodes += other.nodes;
        read += other.read;
        written += other.written;
    }
};

/// While one lives, every node finds the memory of all devices closed, and opens it page by page as it reads and
/// writes. A page counts once per node, so that these are the bytes that a node moves if its caches hold what it reads
/// twice. Pages that an area shares with others are not seen. One at a time.
class traffic_watch : trireme::rehearsal_runtime::watcher {
public:
    static constexpr std::size_t page = 4096;

    std::map<std::string, moved_bytes> of_program; ///< by the name of a kernel's program; "copy", "zeros"
    std::map<std::string, moved_bytes> of_area;    ///< by what memory was taken for; nodes: those that touch it
    moved_bytes kernels, copies, zeros;

    traffic_watch() {
        for (auto const& a : trireme::rehearsal_runtime::budget.areas) {
            auto const begin = reinterpret_cast<std::uintptr_t>(a.data), end = begin + a.bytes;
            auto const first = (begin + page - 1) / page * page, last = end / page * page;
            if (first < last)
                areas_.push_back(
                    {reinterpret_cast<std::byte*>(first), std::vector<char>((last - first) / page), a.what});
        }
        here = this;
        struct sigaction sees = {};
        sees.sa_flags = SA_SIGINFO;
        sees.sa_sigaction = [](int, siginfo_t* what, void* context) {
            if (!here->opens(static_cast<std::byte*>(what->si_addr), was_a_write(context)))
                ::signal(SIGSEGV, SIG_DFL); // it happens again, and ends the program
        };
        ::sigaction(SIGSEGV, &sees, &before_);
        trireme::rehearsal_runtime::stage::here().watch(this);
    }
    traffic_watch(traffic_watch const&) = delete;
    traffic_watch& operator=(traffic_watch const&) = delete;
    ~traffic_watch() override {
        trireme::rehearsal_runtime::stage::here().watch(nullptr);
        ::sigaction(SIGSEGV, &before_, nullptr);
        here = nullptr;
    }

    moved_bytes all() const {
        auto sum = kernels;
        sum += copies;
        sum += zeros;
        return sum;
    }

private:
    enum : char { closed, read = 1, written = 2 };
    struct watched {
        std::byte* first;
        std::vector<char> pages;
        char const* what;
    };

    bool opens(std::byte* address, bool write) noexcept {
        for (auto& a : areas_) {
            if (address < a.first || address >= a.first + a.pages.size() * page) continue;
            auto const i = static_cast<std::size_t>(address - a.first) / page;
            a.pages[i] = static_cast<char>(a.pages[i] | (write ? written : read));
            ::mprotect(a.first + i * page, page, (a.pages[i] & written) != 0 ? PROT_READ | PROT_WRITE : PROT_READ);
            return true;
        }
        return false;
    }
    void protect(int how) {
        for (auto const& a : areas_) ::mprotect(a.first, a.pages.size() * page, how);
    }

    void begins(trireme::rehearsal_runtime::task const& t) override {
        if (t.kind == trireme::rehearsal_runtime::work_kind::nothing) return;
        for (auto& a : areas_) std::memset(a.pages.data(), closed, a.pages.size());
        protect(PROT_NONE);
    }
    void ends(trireme::rehearsal_runtime::task const& t) override {
        using trireme::rehearsal_runtime::work_kind;
        if (t.kind == work_kind::nothing) return;
        protect(PROT_READ | PROT_WRITE);
        moved_bytes of{1, 0, 0};
        for (auto const& a : areas_) {
            moved_bytes here_only{0, 0, 0};
            for (char const p : a.pages) {
                here_only.read += (p & read) != 0 ? page : 0;
                here_only.written += (p & written) != 0 ? page : 0;
            }
            here_only.nodes = here_only.read + here_only.written != 0 ? 1 : 0;
            of_area[a.what] += here_only;
            of.read += here_only.read;
            of.written += here_only.written;
        }
        (t.kind == work_kind::kernel ? kernels : t.kind == work_kind::copy ? copies : zeros) += of;
        of_program[t.kind == work_kind::kernel ? name_of(t.program)
                   : t.kind == work_kind::copy ? "copy"
                                               : "zeros"] += of;
    }

    /// The program's name without its arguments.
    static std::string name_of(char const* mangled) {
        int status = 0;
        std::unique_ptr<char, void (*)(void*)> const plain(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                           &std::free);
        std::string name = status == 0 ? plain.get() : mangled;
        for (std::string const word : {"trireme::", "blocks::", "index_program<", "elementwise_program<"})
            for (std::size_t at = 0; (at = name.find(word)) != std::string::npos;) name.erase(at, word.size());
        return name.substr(0, name.find_first_of("<>"));
    }

    static inline traffic_watch* here = nullptr;
    std::vector<watched> areas_;
    struct sigaction before_ = {};
};

} // namespace rehearsed
