// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/core/extents.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>

namespace core_extents_test {
namespace {

using namespace trireme;

static_assert(extents<>::rank == 0 && extents<>::size == 1); // a single number
static_assert(extents<6, 28, 28>::rank == 3 && extents<6, 28, 28>::size == 6 * 28 * 28);
static_assert(extents<6, 28, 28>::shape == make_shape(6, 28, 28));
static_assert(extents<2, 3, 5, 7>::shape == make_shape(2, 3, 5, 7));
static_assert(extents<5, 0>::size == 0);
static_assert(make_shape(7).size() == 7 && make_shape(7, 3).size() == 21);

static_assert(make_shape(6) != make_shape(6, 1)); // equal sizes are not equal shapes
static_assert(make_shape(2, 3) != make_shape(3, 2));
static_assert(make_shape(2, 3) == make_shape(2, 3));
static_assert(shape{2, {2, 3, 99, 98}} == make_shape(2, 3)); // beyond the rank nothing counts
static_assert(make_shape(1u << 20, 1u << 20, 4).size() == std::size_t{1} << 42);

// In braces are the extents. A rank before them, in braces of their own, is one.
static_assert(shape{784} == make_shape(784) && shape{2, 8, 8} == make_shape(2, 8, 8));
static_assert(shape{8, 8} == make_shape(8, 8) && shape{4, 1, 2, 3} == make_shape(4, 1, 2, 3));
static_assert(shape{} == extents<>::shape && shape().rank == 0 && shape{make_shape(2, 3)} == make_shape(2, 3));
static_assert(shape{1, {784}} == make_shape(784) && shape{3, {1, 28, 28}} == make_shape(1, 28, 28));
static_assert(shape{784, {784}} == make_shape(784)); // there are no more extents
static_assert(!std::is_aggregate_v<shape> && std::is_trivially_copyable_v<shape>);

template<shape S>
inline constexpr std::size_t numbers_of = S.size();
static_assert(numbers_of<shape{3, 4}> == 12);

template<class E>
using there_and_back =
    to_extents<E::rank, E::shape.extent[0], E::shape.extent[1], E::shape.extent[2], E::shape.extent[3]>;
static_assert(std::is_same_v<there_and_back<extents<>>, extents<>>);
static_assert(std::is_same_v<there_and_back<extents<7>>, extents<7>>);
static_assert(std::is_same_v<there_and_back<extents<7, 1>>, extents<7, 1>>);
static_assert(std::is_same_v<there_and_back<extents<7, 2, 3>>, extents<7, 2, 3>>);
static_assert(std::is_same_v<there_and_back<extents<7, 2, 3, 4>>, extents<7, 2, 3, 4>>);

} // namespace

TEST_SUITE("core/extents") {
    TEST_CASE("a shape is its type's value") { CHECK((extents<1, 28, 28>::shape == make_shape(1, 28, 28))); }
}

} // namespace core_extents_test
