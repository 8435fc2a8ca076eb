// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/layer/network.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

namespace detail {

/// The name of a type as it is written in a program: from the compiler's own text, without our namespace.
template<class T>
std::string type_name() {
    std::string_view text = __PRETTY_FUNCTION__;
    auto const from = text.find("T = ");
    text = text.substr(from + 4);
    text = text.substr(0, std::min(text.find(';'), text.rfind(']')));
    std::string name(text);
    for (std::string_view drop : {"trireme::", "UL", "ul"})
        for (auto at = name.find(drop); at != std::string::npos; at = name.find(drop)) name.erase(at, drop.size());
    for (auto at = name.find(" >"); at != std::string::npos; at = name.find(" >")) name.erase(at, 1);
    return name;
}

inline std::string to_string(shape const& s) {
    std::string text;
    for (int i = 0; i < s.rank; ++i) text += (i == 0 ? "" : " x ") + std::to_string(s.extent[i]);
    return text;
}

inline std::string table_line(char const* layer, std::string const& output, std::string const& parameters,
                              std::string const& flops) {
    char line[160];
    std::snprintf(line, sizeof line, "%-36s %14s %12s %14s", layer, output.c_str(), parameters.c_str(), flops.c_str());
    std::string text = line;
    text.erase(text.find_last_not_of(' ') + 1);
    return text + '\n';
}

} // namespace detail

/// 61706 as "61,706".
inline std::string with_commas(unsigned long long n) {
    auto digits = std::to_string(n);
    for (auto at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
    return digits;
}

/// A table of the network: each layer, its output shape for one sample, its parameters, and the FLOPs of one sample's
/// forward pass.
template<class Network>
std::string network_table() {
    auto text = detail::table_line("layer", "output", "parameters", "forward FLOPs");
    text += detail::table_line("input", detail::to_string(Network::row(0).input), "", "");
    [&]<std::size_t... Index>(std::index_sequence<Index...>) {
        std::string const names[] = {detail::type_name<typename Network::template layer_type<Index>>()..., ""};
        for (std::size_t i = 0; i < Network::depth; ++i) {
            auto const& d = Network::row(i).description;
            text += detail::table_line(names[i].c_str(), detail::to_string(d.output),
                                       d.parameter_count == 0 ? "" : with_commas(d.parameter_elements()),
                                       d.forward_flops == 0 ? "" : with_commas(d.forward_flops));
        }
    }
    (std::make_index_sequence<Network::depth>{});
    text += detail::table_line("total", "", with_commas(Network::parameters), with_commas(Network::forward_flops));
    return text;
}

} // namespace trireme
