// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>

namespace trireme {

/// A rule holds when there is nothing to say. Broken rules are class templates whose arguments are the words below: the
/// compiler prints text and words in one error. (`rule_holds<>` is never true for words; it is a template over them
/// because compilers echo exactly the arguments a failed condition depends on.)
template<class... Words>
inline constexpr bool rule_holds = false;

/// The absence of a broken rule.
struct no_rule {};

/// Words of the messages. They name numbers, so that `gets<rank<3>>` reads as a sentence; they have no members.
inline namespace words {

template<std::size_t Position, class Layer>
struct at_layer;
template<class>
struct wants;
template<class>
struct gets;
template<int>
struct rank;
template<std::size_t>
struct at_most;
template<std::size_t>
struct at_least;
template<std::size_t Position, class Policy>
struct at_policy;
template<int>
struct devices;
template<std::size_t>
struct shards;
template<int>
struct on_rank;
template<int>
struct at_step;
template<int>
struct on_role;
template<std::size_t...>
struct rows;
template<int>
struct at_task; // of the role's list, with sends and receives
template<int>
struct of_micro_batch;
template<int>
struct of_chunk;
template<class>
struct strategy;

} // namespace words
} // namespace trireme
