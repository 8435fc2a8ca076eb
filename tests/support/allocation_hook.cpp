// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <support/allocation_hook.hpp>

#include <trireme/device/rehearsal/queue.hpp>

#include <cstdint>
#include <cstdlib>
#include <new>

namespace allocation_hook {

std::atomic<std::size_t> allocations{0}, aligned_to_line{0}, aligned_beyond{0}, most_aligned{SIZE_MAX};

namespace {

void count() {
    if (trireme::rehearsal_runtime::own_work::depth == 0) ++allocations;
}

void* plain(std::size_t bytes) {
    count();
    if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
    throw std::bad_alloc();
}
void* or_null(std::size_t bytes) noexcept {
    count();
    return std::malloc(bytes == 0 ? 1 : bytes);
}
void* aligned(std::size_t bytes, std::size_t alignment) {
    count();
    if (bytes > most_aligned) throw std::bad_alloc();
    if (alignment == 64) aligned_to_line += bytes;
    if (alignment > 64) aligned_beyond += bytes;
    if (void* p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)) return p;
    throw std::bad_alloc();
}

} // namespace
} // namespace allocation_hook

[[gnu::noinline]] void* operator new(std::size_t bytes) { return allocation_hook::plain(bytes); }
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return allocation_hook::plain(bytes); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
    return allocation_hook::or_null(bytes);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, std::nothrow_t const&) noexcept {
    return allocation_hook::or_null(bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t a) {
    return allocation_hook::aligned(bytes, static_cast<std::size_t>(a));
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, std::align_val_t a) {
    return allocation_hook::aligned(bytes, static_cast<std::size_t>(a));
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::nothrow_t const&) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::nothrow_t const&) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
