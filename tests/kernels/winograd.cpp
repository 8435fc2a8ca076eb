// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable/winograd.hpp>
#include <trireme/kernels/reference/conv2d.hpp>

#include <kernels/cases.hpp>
#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace device_winograd_test {
using namespace trireme;
using kernel_cases::sizes;

namespace {

/// Arrays begin at a cache line.
template<class T>
using guarded = kernel_cases::guarded<T, 64>;

/// Whole numbers from -4 to 4. All that the kernels compute of them is exact: halves of halves, and nowhere near the
/// end of the significand.
template<class T>
std::vector<T> whole(std::uint32_t which, std::size_t n) {
    auto values = numbers::uniform<T>(which, n, 4.5);
    for (auto& value : values) value = std::round(value);
    return values;
}

/// A kernel computed `result` and `again` from scratch memory with different contents, the reference `expected`.
template<class T>
struct outcome {
    std::string name;
    std::vector<T> result, again, expected;
    std::size_t terms;
    bool intact; // nothing beside the results and the scratch memory was written
};

/// Outcomes of all kernels for arguments that are numbers(which, n).
template<class G, std::size_t Lanes, class T>
std::vector<outcome<T>> outcomes(std::vector<T> (*numbers)(std::uint32_t which, std::size_t n)) {
    using size = sizes<G>;
    auto const x = numbers(0, size::x * Lanes), w = numbers(1, size::w), b = numbers(2, size::b);
    auto const dy = numbers(3, size::y * Lanes), dw = numbers(4, size::w), db = numbers(5, size::b);
    constexpr auto bytes = detail::winograd_scratch_bytes<G, Lanes, T>();
    static_assert(bytes % sizeof(T) == 0);
    guarded<T> scratch(bytes / sizeof(T)), other(bytes / sizeof(T), 1);
    std::vector<outcome<T>> all;

    guarded<T> y(size::y * Lanes), y_again(size::y * Lanes);
    detail::winograd_forward<G, Lanes>(x.data(), w.data(), b.data(), y.data(), scratch.data());
    detail::winograd_forward<G, Lanes>(x.data(), w.data(), b.data(), y_again.data(), other.data());
    std::vector<T> expected(size::y * Lanes);
    conv2d_forward<G, Lanes>(reference{}, x.data(), w.data(), b.data(), expected.data());
    all.push_back({"y", y.numbers(), y_again.numbers(), expected, G::channels * 9 + 1, y.intact()});

    guarded<T> dx(size::x * Lanes), dx_again(size::x * Lanes);
    detail::winograd_backward_input<G, Lanes>(w.data(), dy.data(), dx.data(), scratch.data());
    detail::winograd_backward_input<G, Lanes>(w.data(), dy.data(), dx_again.data(), other.data());
    expected.resize(size::x * Lanes);
    conv2d_backward_input<G, Lanes>(reference{}, w.data(), dy.data(), expected.data());
    all.push_back({"dx", dx.numbers(), dx_again.numbers(), expected, G::out_channels * 9, dx.intact()});

    if constexpr (register_lanes<T, Lanes> == full_register<T>) {
        guarded<T> dw1(dw), dw2(dw), db1(db), db2(db);
        auto expected_dw = dw, expected_db = db;
        detail::winograd_backward_weights<G, Lanes>(x.data(), dy.data(), dw1.data(), db1.data(), scratch.data());
        detail::winograd_backward_weights<G, Lanes>(x.data(), dy.data(), dw2.data(), db2.data(), other.data());
        conv2d_backward_weights<G, Lanes>(reference{}, x.data(), dy.data(), expected_dw.data(), expected_db.data());
        constexpr std::size_t terms = G::out_height * G::out_width * Lanes + 1;
        all.push_back({"dw", dw1.numbers(), dw2.numbers(), expected_dw, terms, dw1.intact()});
        all.push_back({"db", db1.numbers(), db2.numbers(), expected_db, terms, db1.intact()});
    }
    for (auto& one : all) one.intact = one.intact && scratch.intact() && other.intact();
    return all;
}

template<class T>
void check(std::vector<outcome<T>> const& all, std::string const& geometry, bool exact) {
    for (auto const& one : all) {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        CAPTURE(one.name);
        CAPTURE(geometry);
        CAPTURE(sizeof(T));
        if (exact)
            CHECK(one.result == one.expected);
        else
            CHECK(numbers::apart(one.result, one.expected, one.terms) <= 1);
        CHECK(one.again == one.result); // the same arguments, the same bits
        CHECK(one.intact);
    }
}

template<class G, std::size_t Lanes>
std::string described() {
    return kernel_cases::text_of_conv2d<G>() + ", " + std::to_string(Lanes) + " lanes";
}

template<class G, std::size_t Lanes, class T>
void exact_for_whole_numbers() {
    check(outcomes<G, Lanes, T>(whole<T>), described<G, Lanes>(), true);
}

template<class G, std::size_t Lanes, class T>
void close_to_reference() {
    auto const fractions = [](std::uint32_t which, std::size_t n) { return numbers::uniform<T>(which, n); };
    check(outcomes<G, Lanes, T>(fractions), described<G, Lanes>(), false);
}

template<std::size_t C, std::size_t H, std::size_t W, std::size_t O, std::size_t P>
using geometry = conv2d_geometry<C, H, W, O, 3, P, 1>;

template<class T>
inline constexpr std::size_t full = full_register<T>; // the lanes of the portable policy

} // namespace

TEST_SUITE("kernels/winograd") {
    TEST_CASE_TEMPLATE("exact for whole numbers, inside the image and at its border", T, float, double) {
        exact_for_whole_numbers<geometry<1, 4, 4, 1, 0>, full<T>, T>(); // one tile
        exact_for_whole_numbers<geometry<1, 3, 3, 1, 0>, full<T>, T>(); // one output
        exact_for_whole_numbers<geometry<1, 1, 1, 1, 1>, full<T>, T>(); // one input
        exact_for_whole_numbers<geometry<2, 1, 1, 3, 2>, full<T>, T>(); // more padding than image
        exact_for_whole_numbers<geometry<3, 7, 7, 5, 1>, full<T>, T>(); // odd sizes
        exact_for_whole_numbers<geometry<5, 6, 9, 3, 0>, full<T>, T>(); // rectangles
        exact_for_whole_numbers<geometry<2, 5, 8, 17, 2>, full<T>, T>();
        exact_for_whole_numbers<geometry<7, 2, 13, 8, 1>, full<T>, T>();
        exact_for_whole_numbers<geometry<8, 12, 1, 7, 1>, full<T>, T>();
        exact_for_whole_numbers<geometry<5, 4, 4, 40, 1>, full<T>, T>(); // few tiles, several blocks of outputs
    }

    TEST_CASE_TEMPLATE("exact for every number of lanes", T, float, double) {
        exact_for_whole_numbers<geometry<3, 5, 6, 5, 1>, 1, T>();
        exact_for_whole_numbers<geometry<3, 5, 6, 5, 1>, 6, T>();
        exact_for_whole_numbers<geometry<3, 5, 6, 5, 1>, 8, T>();
        exact_for_whole_numbers<geometry<3, 5, 6, 5, 1>, 16, T>();
        exact_for_whole_numbers<geometry<3, 5, 6, 5, 1>, 32, T>();
    }

    TEST_CASE_TEMPLATE("exact for several blocks of tiles and of channels", T, float, double) {
        constexpr detail::winograd_plan<16, T> plan(80, 7, 8, 40, 1);
        static_assert(plan.keeps_weights() && plan.tiles % plan.block != 0);
        exact_for_whole_numbers<geometry<80, 7, 8, 40, 1>, 16, T>();
        exact_for_whole_numbers<geometry<33, 5, 8, 81, 2>, 16, T>();
    }

    TEST_CASE_TEMPLATE("as close to the reference as rounding allows", T, float, double) {
        close_to_reference<geometry<1, 6, 6, 1, 1>, full<T>, T>();
        close_to_reference<geometry<3, 7, 9, 5, 0>, full<T>, T>();
        close_to_reference<geometry<32, 7, 7, 40, 1>, full<T>, T>();
        close_to_reference<geometry<64, 10, 9, 32, 2>, full<T>, T>();
    }

    TEST_CASE("it pays for 3 x 3 kernels of stride 1 between many channels, not where most taps are padding") {
        constexpr auto lanes = full<float>;
        static_assert(detail::winograd_pays<geometry<64, 28, 28, 64, 1>, lanes, float>());
        static_assert(detail::winograd_pays<geometry<64, 28, 28, 64, 1>, 2 * lanes, float>());
        static_assert(detail::winograd_pays<geometry<512, 4, 4, 512, 1>, lanes, float>());
        static_assert(!detail::winograd_pays<geometry<64, 5, 5, 64, 1>, lanes, float>());
        static_assert(!detail::winograd_pays<geometry<512, 2, 2, 512, 1>, lanes, float>());
        static_assert(!detail::winograd_pays<geometry<3, 28, 28, 64, 1>, lanes, float>());
        static_assert(!detail::winograd_pays<geometry<64, 28, 28, 4, 1>, lanes, float>());
        static_assert(!detail::winograd_pays<geometry<64, 28, 28, 64, 1>, 1, float>());
        static_assert(!detail::winograd_pays<geometry<64, 28, 28, 64, 3>, lanes, float>());
        static_assert(!detail::winograd_pays<conv2d_geometry<64, 28, 28, 64, 3, 1, 2>, lanes, float>());
        static_assert(!detail::winograd_pays<conv2d_geometry<64, 28, 28, 64, 5, 1, 1>, lanes, float>());
    }
}

} // namespace device_winograd_test
