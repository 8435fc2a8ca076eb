// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/units.hpp>
#include <trireme/kernels/kernel_context.hpp>

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace trireme {

namespace detail {

/// Throws usage_error unless `value` is finite and in [0, below).
inline void check_rate(char const* name, double value, double below) {
    if (value >= 0 && value < below && std::isfinite(value)) return;
    throw usage_error(std::string(name) + " = " + number_text(value) + ": it must be a finite number, not negative" +
                      (std::isfinite(below) ? ", and below " + number_text(below) : std::string()));
}

template<class Options>
void check_common_options(Options const& o) {
    constexpr auto unbounded = std::numeric_limits<double>::infinity();
    check_rate("learning_rate", static_cast<double>(o.learning_rate), unbounded);
    check_rate("weight_decay", static_cast<double>(o.weight_decay), unbounded);
}

/// Names the options that all optimizers here have, for processes that must agree in them.
void describe_common_options(auto const& o, auto&& say) {
    say("learning_rate", o.learning_rate);
    say("weight_decay", o.weight_decay);
}

/// Plain fields of an optimizer's options cannot be set: they stand for those of a trainer.
struct plain_fields {
    struct unset {};
    struct number {
        std::size_t value = 0;
    };
    using other_name = unset;
    using other_braces = unset;
    using logical_shards = number;
    using max_norm = unset;
    using rate = unset;
};
struct say_nothing {
    template<class Number>
    void operator()(char const*, Number) const noexcept {}
};

} // namespace detail

/// The arrays of an optimizer's numbers, for the parameters that an update is about.
template<class O, class T>
using optimizer_state = std::array<T*, O::state_per_parameter>;

namespace detail {

/// True if an optimizer wants to know how many updates have been made.
template<class O>
inline constexpr bool counts_updates = [] {
    if constexpr (requires { O::counts_updates; })
        return O::counts_updates;
    else
        return false;
}();

/// True for an optimizer that names none of its arrays, or each of them.
template<class O>
inline constexpr bool names_its_arrays = [] {
    if constexpr (requires { O::array_names[0]; }) // nvcc finds a template's array without a size, but by sizeof
        return !std::is_pointer_v<std::remove_cvref_t<decltype(O::array_names)>> &&
               sizeof(O::array_names) >= O::state_per_parameter * sizeof(O::array_names[0]);
    else
        return !requires { O::array_names; };
}();

/// A learning rate as snapshots and checkpoints hold it: no number of another type, of which they would lose bits. What
/// is no number stands for the option of a model.
template<class Rate>
concept learning_rate_of_options =
    std::convertible_to<Rate, float> &&
    (std::same_as<std::remove_cvref_t<Rate>, float> || !std::is_arithmetic_v<std::remove_cvref_t<Rate>>);

/// An optimizer updates by its functions and options; kernels that say no more than they must stand for a trainer's. No
/// function is compiled.
template<class O, class Options>
concept updates_by =
    std::default_initializable<Options> && std::copyable<Options> &&
    requires(Options const& fixed, float* w, float const* gradient, std::size_t n,
             optimizer_state<O, float> const& state, std::uint64_t const* made) {
        { fixed.learning_rate } -> learning_rate_of_options;
        { fixed.batch.samples } -> std::convertible_to<std::size_t>;
        { fixed.seed } -> std::convertible_to<std::uint64_t>;
        { fixed.logical_shards.value } -> std::convertible_to<std::size_t>;
        O::check(fixed);
        O::describe(fixed, say_nothing{});
        requires std::is_trivially_copyable_v<decltype(O::template numbers<float>(fixed))>;
        requires counts_updates<O> || requires {
            O::update(kernel_context{}, w, gradient, state, n, O::template numbers<float>(fixed));
        };
        requires !counts_updates<O> || requires {
            O::update(kernel_context{}, w, gradient, state, n, O::template numbers<float>(fixed), made);
        };
    };

} // namespace detail

/// An optimizer is a type that says how many numbers it keeps per parameter, which options training with it has,
/// and how one slice of parameters is updated from its gradients and its state. It knows nothing of layers or devices.
///
///     static constexpr std::size_t state_per_parameter;
///     template<class Choices> struct options;        // one flat struct: designators reach direct members only
///     static void check(auto const& options);        // throws usage_error
///     static void describe(auto const& options, auto&& say); // say(name, number) of each that decides the weights
///     template<class T> static auto numbers(auto const& options); // what an update needs of them: a trivial struct
///     static void update(auto const& kernels, T* w, T const* gradient, optimizer_state<O, T> state, std::size_t n,
///                        auto numbers);
///
/// `state` are the arrays of n numbers that it keeps, one per number of a parameter. `update` passes `numbers` on to a
/// kernel: on the host it is the struct, on an accelerator its address there. With `static constexpr bool
/// counts_updates = true`, for corrections that fade, it has one argument more, the address of a std::uint64_t, on an
/// accelerator there: how many updates have been made before this one. It lies beside the state, so that steps which
/// update nothing do not count, and a graph that was captured once goes on counting. The options hold, besides the
/// optimizer's own: learning_rate, a float; batch, seed, logical_shards; `rate`, if the learning rate may follow a
/// rate_schedule, and `max_norm`, if the policy clip_norm is to work with it. Where a trainer runs is no concern of an
/// optimizer (run_options). `static constexpr char const* array_names[]`, if there is one, names each of the arrays in
/// checkpoints.
template<class O>
concept optimizer = requires {
    typename std::integral_constant<std::size_t, O::state_per_parameter>;
    { O::name } -> std::convertible_to<char const*>;
    typename O::template options<detail::plain_fields>;
} && detail::names_its_arrays<O> && detail::updates_by<O, typename O::template options<detail::plain_fields>>;

namespace detail {

/// The arrays in a block of memory that begin `apart` elements one behind the other, from element `first` of each on.
template<optimizer O, class T>
constexpr optimizer_state<O, T> state_in([[maybe_unused]] T* block, [[maybe_unused]] std::size_t apart,
                                         [[maybe_unused]] std::size_t first) {
    optimizer_state<O, T> arrays{};
    for (auto*& array : arrays) array = block + first, block += apart;
    return arrays;
}

template<class Options>
inline constexpr bool has_weight_decay =
    requires(Options o) { requires std::floating_point<decltype(o.weight_decay)>; };

/// Options for parameters that do not decay.
template<class Options>
Options without_weight_decay(Options o) {
    if constexpr (has_weight_decay<Options>) o.weight_decay = 0;
    return o;
}

/// One update; only optimizers that count get `made`.
template<optimizer O, class Kernels, class T, class Numbers>
void apply_update(Kernels const& k, T* w, T const* gradient, optimizer_state<O, T> const& state, std::size_t n,
                  Numbers numbers, [[maybe_unused]] std::uint64_t const* made) {
    if constexpr (counts_updates<O>)
        O::update(k, w, gradient, state, n, numbers, made);
    else
        O::update(k, w, gradient, state, n, numbers);
}

} // namespace detail

} // namespace trireme
