// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme {

/// Element types by the names the field uses. A dtype is a tag; `value_type` is how it is stored.
struct f32 {
    using value_type = float;
    static constexpr char const* name = "f32";
    static constexpr std::size_t bytes = 4;
};
struct f64 {
    using value_type = double;
    static constexpr char const* name = "f64";
    static constexpr std::size_t bytes = 8;
};
struct u8 {
    using value_type = std::uint8_t;
    static constexpr char const* name = "u8";
    static constexpr std::size_t bytes = 1;
};
struct i32 {
    using value_type = std::int32_t;
    static constexpr char const* name = "i32";
    static constexpr std::size_t bytes = 4;
};

} // namespace trireme
