// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/schedule/pipeline/choice.hpp>
#include <trireme/schedule/pipeline/schedules/breadth_first.hpp>
#include <trireme/schedule/pipeline/schedules/dual_pipe_v.hpp>
#include <trireme/schedule/pipeline/schedules/gpipe.hpp>
#include <trireme/schedule/pipeline/schedules/interleaved.hpp>
#include <trireme/schedule/pipeline/schedules/one_f_one_b.hpp>
#include <trireme/schedule/pipeline/schedules/v_half.hpp>
#include <trireme/schedule/pipeline/schedules/v_min.hpp>
#include <trireme/schedule/pipeline/schedules/zero_bubble_auto.hpp>
#include <trireme/schedule/pipeline/schedules/zero_bubble_h1.hpp>
#include <trireme/schedule/pipeline/schedules/zero_bubble_h2.hpp>
#include <trireme/schedule/pipeline/schedules/zero_bubble_v.hpp>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

namespace detail {

template<int... Less>
constexpr auto list_schedules(std::integer_sequence<int, Less...>) {
    return std::to_array<schedule_choice>({gpipe{}, one_f_one_b{}, interleaved<Less + 1>{}...,
                                           breadth_first<Less + 1>{}..., zero_bubble_h1{}, zero_bubble_h2{},
                                           zero_bubble_auto<>{}, zero_bubble_v{}, v_half{}, v_min{}, dual_pipe_v{}});
}

/// True if a program that reads `text` means the schedule of this name: a number stands behind a colon, because shells
/// read brackets as files.
constexpr bool means_schedule(std::string_view text, std::string_view name) noexcept {
    auto const bracket = name.find('<');
    if (bracket == name.npos) return text == name;
    return text.size() + 1 == name.size() && text.substr(0, bracket) == name.substr(0, bracket) &&
           text[bracket] == ':' && text.substr(bracket + 1) == name.substr(bracket + 1, text.size() - bracket - 1);
}

} // namespace detail

/// All schedules that have a name: those that come with Trireme, with each number of stages that a device may have.
inline constexpr auto named_schedules = detail::list_schedules(std::make_integer_sequence<int, max_chunks>{});

/// The names that `schedule_named` takes, as a list with commas; C stands for a number of stages.
TRIREME_COLD inline std::string schedule_names() {
    std::string names;
    for (auto const& s : named_schedules) {
        std::string_view const name = s.name;
        auto const bracket = name.find('<');
        if (bracket != name.npos && s.chunks > 1) continue; // named with its first number
        if (!names.empty()) names += ", ";
        names += name.substr(0, bracket);
        if (bracket != name.npos) names += ":C";
    }
    return names + " (C: 1 to " + std::to_string(max_chunks) + " stages of each device)";
}

namespace detail {
[[noreturn]] TRIREME_COLD inline void refuse_schedule_name(std::string_view name) {
    throw usage_error("there is no schedule '" + std::string(name) + "'; choose one of " + schedule_names());
}
} // namespace detail

/// A program that reads a schedule's name from its command line gets the schedule here: `gpipe`, `zero_bubble_v`,
/// `interleaved:2`, as schedule_names lists them; `zero_bubble_auto` is that of equal times.
/// Errors: usage_error for another name, with the list.
constexpr schedule_choice schedule_named(std::string_view name) {
    for (auto const& s : named_schedules)
        if (detail::means_schedule(name, s.name)) return s;
    detail::refuse_schedule_name(name);
}

} // namespace trireme
