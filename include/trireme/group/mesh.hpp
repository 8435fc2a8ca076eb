// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/units.hpp>
#include <trireme/core/words.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace trireme {

/// The data-parallel axis of a mesh: N replicas of the model, each with a share of the batch.
/// `dp<dynamic>` leaves N to the trainer's options; the same checks then run at construction.
template<int N>
struct dp {
    static constexpr char const* name = "dp";
    static constexpr int extent = N;
};

/// The pipeline axis of a mesh: each replica is cut into N stages, which lie on N devices.
/// `pp<dynamic>` leaves N to the trainer's options.
template<int N>
struct pp {
    static constexpr char const* name = "pp";
    static constexpr int extent = N;
};

/// An axis of a mesh, one of one's own too: a type with a name and an extent.
template<class A>
concept mesh_axis_type = requires {
    { A::name } -> std::convertible_to<char const*>;
    { A::extent } -> std::convertible_to<int>;
};

inline constexpr int max_axes = 8;

/// Some axes of a mesh, by their numbers.
struct axis_set {
    std::uint8_t bits = 0;

    constexpr axis_set() = default;
    constexpr axis_set(std::initializer_list<int> axes) {
        for (int const a : axes) bits = static_cast<std::uint8_t>(bits | (1u << a));
    }
    constexpr bool has(int axis) const noexcept { return (bits >> axis & 1u) != 0; }
};

/// Axes with their extents: a mesh as a value. Ranks are numbered so that along the last axis neighbours have
/// neighbouring numbers.
struct mesh_value {
    struct named_axis {
        char const* name = "";
        int extent = 1;
    };
    int count = 0;
    named_axis axes[max_axes] = {};

    constexpr mesh_value() = default;
    /// Throws usage_error for more than max_axes.
    constexpr mesh_value(std::initializer_list<named_axis> all) {
        if (all.size() > static_cast<std::size_t>(max_axes)) throw usage_error("a mesh has at most eight axes");
        for (auto const& a : all) axes[count++] = a;
    }

    /// The number of an axis; -1 for one that the mesh does not have.
    constexpr int find(std::string_view name) const noexcept {
        for (int a = 0; a < count; ++a)
            if (name == axes[a].name) return a;
        return -1;
    }
    /// 1 for an axis that the mesh does not have.
    constexpr int extent(std::string_view name) const noexcept {
        int const a = find(name);
        return a < 0 ? 1 : axes[a].extent;
    }
    constexpr int size() const noexcept { return size(every()); }
    /// Ranks of a group along these axes.
    constexpr int size(axis_set along) const noexcept {
        int n = 1;
        for (int a = 0; a < count; ++a)
            if (along.has(a)) n *= axes[a].extent;
        return n;
    }
    constexpr axis_set every() const noexcept {
        axis_set all;
        all.bits = static_cast<std::uint8_t>((1u << count) - 1);
        return all;
    }

    /// The coordinate of a rank.
    constexpr int at(int rank, int axis) const noexcept {
        for (int a = count - 1; a > axis; --a) rank /= axes[a].extent;
        return rank % axes[axis].extent;
    }
    /// The place of a rank in its group along these axes.
    constexpr int place(int rank, axis_set along) const noexcept {
        int n = 0;
        for (int a = 0; a < count; ++a)
            if (along.has(a)) n = n * axes[a].extent + at(rank, a);
        return n;
    }
    /// The rank that has a place in the group of `rank` along these axes.
    constexpr int member(int rank, axis_set along, int place) const noexcept {
        int found = 0, stride = 1;
        for (int a = count - 1; a >= 0; --a) {
            int const coordinate = along.has(a) ? place % axes[a].extent : at(rank, a);
            if (along.has(a)) place /= axes[a].extent;
            found += coordinate * stride;
            stride *= axes[a].extent;
        }
        return found;
    }
};

/// The group of a collective in a mesh: the ranks along some axes; of them, those whose role is in the mask. A role is
/// the coordinate along the axis pp. The first and the last stage of pp<4> are {{of pp}, 0b1001}.
struct mesh_group {
    axis_set along = {};                     ///< axes whose coordinates vary within the group
    std::uint64_t roles = ~std::uint64_t{0}; ///< a bit for each role that belongs to it

    /// The members of the group of `rank`, in the order of their places; none if it is not one of them.
    std::vector<int> members(mesh_value const& m, int rank) const {
        int const axis = m.find("pp");
        auto const takes = [&](int r) { return axis < 0 || (roles >> m.at(r, axis) & 1u) != 0; };
        std::vector<int> all;
        for (int i = 0; i < m.size(along) && takes(rank); ++i)
            if (int const r = m.member(rank, along, i); takes(r)) all.push_back(r);
        return all;
    }
};

template<class... Where>
struct mesh_extent_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0020: an axis of a mesh needs at least one device: write dp<1> for a single "
                  "device, or dp<dynamic> to choose when the program runs");
};

namespace detail {

template<class... Axes>
constexpr mesh_value value_of_axes() {
    if constexpr ((mesh_axis_type<Axes> && ...))
        return {{Axes::name, Axes::extent}...};
    else
        return {}; // what takes the mesh refuses it
}
template<class A>
constexpr bool has_extent() {
    if constexpr (mesh_axis_type<A>)
        return A::extent >= 1 || A::extent == dynamic;
    else
        return true;
}

template<bool Ok, class... Axes>
struct mesh_extent_check {
    using type = no_rule;
};
template<class Axis, class... Axes>
struct mesh_extent_check<false, Axis, Axes...> : mesh_extent_check<false, Axes...> {};
template<class Axis, class... Axes>
    requires(!has_extent<Axis>())
struct mesh_extent_check<false, Axis, Axes...> {
    using type = mesh_extent_rule<wants<at_least<1>>, gets<devices<Axis::extent>>>;
};

} // namespace detail

/// A mesh names the devices that compute together, and their axes. `mesh<host, dp<2>>` is two devices of this process:
/// threads, for the transport follows from the kind of device; `mesh<host, dp<2>, pp<3>>` is two replicas of three
/// stages each.
template<class Device, class... Axes>
struct mesh {
    using device = Device;
    static constexpr mesh_value value = detail::value_of_axes<Axes...>();
    static constexpr int data_extent = value.extent("dp");
    static constexpr int pipeline_extent = value.extent("pp");

    static constexpr bool valid = (detail::has_extent<Axes>() && ...);
    using rule = typename detail::mesh_extent_check<valid, Axes...>::type;
    static constexpr rule checked{};
};

} // namespace trireme
