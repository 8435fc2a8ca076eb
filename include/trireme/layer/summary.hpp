// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/layer/for_units.hpp>
#include <trireme/layer/network.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

namespace trireme {

namespace detail {

/// The name of a type as it is written in a program, without our namespace: from the compiler's own text for a function
/// template with the parameter T.
TRIREME_COLD inline std::string written_name(std::string_view text) {
    auto const from = text.find("T = ");
    text = text.substr(from + 4);
    text = text.substr(0, std::min(text.find(';'), text.rfind(']')));
    std::string name(text);
    std::string_view const ours = "trireme::";
    for (auto at = name.find(ours); at != std::string::npos; at = name.find(ours)) name.erase(at, ours.size());
    for (std::size_t at = 1; at + 1 < name.size(); ++at) // 5ul, as g++ writes a size
        if (name[at - 1] >= '0' && name[at - 1] <= '9' &&
            (name.compare(at, 2, "ul") == 0 || name.compare(at, 2, "UL") == 0))
            name.erase(at, 2);
    std::string_view const share = "(percentage)"; // as compilers write percent<50>
    for (auto at = name.find(share); at != std::string::npos; at = name.find(share)) {
        name.replace(at, share.size(), "percent<");
        name.insert(name.find_first_not_of("0123456789", at + share.size() - 4), 1, '>'); // as text g++ 12 warns
    }
    for (auto at = name.find(" >"); at != std::string::npos; at = name.find(" >")) name.erase(at, 1);
    return name;
}
template<class T>
std::string type_name() {
    return written_name(__PRETTY_FUNCTION__);
}

inline std::string to_string(shape const& s) {
    std::string text;
    for (int i = 0; i < s.rank; ++i) text += (i == 0 ? "" : " x ") + std::to_string(s.extent[i]);
    return text;
}

/// One line of the table; a name that is too long pushes the rest to the right.
inline std::string table_line(std::string const& row, std::string layer, std::string const& output,
                              std::string const& parameters, std::string const& flops) {
    auto const right = [](std::string const& text, std::size_t width) {
        return std::string(text.size() < width ? width - text.size() : 0, ' ') + text;
    };
    if (layer.size() < 36) layer.resize(36, ' ');
    auto text =
        right(row, 3) + "  " + layer + ' ' + right(output, 14) + ' ' + right(parameters, 12) + ' ' + right(flops, 14);
    text.erase(text.find_last_not_of(' ') + 1);
    return text + '\n';
}

/// The name of a layer in the table; empty for a layer that computes nothing of its own.
template<class L>
std::string line_name() {
    if constexpr (std::is_same_v<L, fork> || std::is_same_v<L, branch>)
        return {};
    else if constexpr (is_residual_sum<L>)
        return "  + shortcut";
    else if constexpr (is_tied_layer<L>)
        return type_name<typename L::written>();
    else
        return type_name<L>();
}

} // namespace detail

/// 61706 as "61,706".
inline std::string with_commas(unsigned long long n) {
    auto digits = std::to_string(n);
    for (auto at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
    return digits;
}

/// A table of the network: each layer with the number of its row, its output shape for one sample, its parameters, and
/// the FLOPs of one sample's forward pass. Rows that compute nothing of their own, as the fork that begins a residual,
/// have no line, but a number.
template<class Network>
std::string network_table() {
    auto text = detail::table_line("row", "layer", "output", "parameters", "forward FLOPs");
    text += detail::table_line("", "input", detail::to_string(Network::row(0).input), "", "");
    detail::for_units<Network>(0, [&]<class Chain, std::size_t Unit>(detail::unit<Chain, Unit>, std::size_t row) {
        auto const name = detail::line_name<typename Chain::template layer_type<Unit>>();
        if (name.empty()) return;
        auto const& d = Network::row(row).description;
        text += detail::table_line(std::to_string(row), name, detail::to_string(d.output),
                                   Network::row(row).own_tensors() == 0 ? "" : with_commas(d.parameter_elements()),
                                   d.forward_flops == 0 ? "" : with_commas(d.forward_flops));
    });
    text += detail::table_line("", "total", "", with_commas(Network::parameters), with_commas(Network::forward_flops));
    return text;
}

} // namespace trireme
