// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/core/pack.hpp>

#include <doctest/doctest.h>

#include <type_traits>
#include <utility>

namespace core_pack_test {
namespace {

using namespace trireme;

struct incomplete; // packs take types that cannot be made

static_assert(pack<>::size == 0);
static_assert(pack<int, incomplete, void>::size == 3);
static_assert(std::is_same_v<type_at<0, int>, int>);
static_assert(std::is_same_v<type_at<1, int, incomplete, void>, incomplete>);
static_assert(std::is_same_v<type_at<2, int, incomplete, void>, void>);
static_assert(std::is_same_v<type_at<1, int&, int const, int>, int const>); // qualifiers are kept
static_assert(std::is_same_v<type_at<2, int, int, int>, int>);              // doubled types are not ambiguous

// As many layers as anybody stacks, within the default depth of templates.
template<std::size_t I>
struct number {};
template<std::size_t... I>
constexpr bool all_found(std::index_sequence<I...>) {
    return (std::is_same_v<type_at<I, number<I>...>, number<I>> && ...);
}
static_assert(all_found(std::make_index_sequence<60>{}));
static_assert(std::is_same_v<type_at<0, number<0>>, number<0>>);

template<std::size_t... I>
constexpr bool last_of_many(std::index_sequence<I...>) {
    return std::is_same_v<type_at<sizeof...(I) - 1, number<I>...>, number<sizeof...(I) - 1>>;
}
static_assert(last_of_many(std::make_index_sequence<2000>{}));

} // namespace

TEST_SUITE("core/pack") {
    TEST_CASE("packs are walked flat") { CHECK(last_of_many(std::make_index_sequence<2000>{})); }
}

} // namespace core_pack_test
