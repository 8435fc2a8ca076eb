// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/data/safetensors.hpp>
#include <trireme/layer/loss.hpp>
#include <trireme/layer/names.hpp>
#include <trireme/trainer/predictions.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

/// The place of a network's tensor in a file of others, for load_weights.
struct file_tensor {
    std::string name;        ///< the tensor's name in the file
    bool transposed = false; ///< true for a matrix whose columns are the network's rows
};

namespace detail {

template<class T>
inline constexpr safetensors_dtype file_dtype =
    std::is_same_v<T, double> ? safetensors_dtype::f64 : safetensors_dtype::f32;

inline std::vector<std::size_t> file_shape(shape const& s) { return {s.extent, s.extent + s.rank}; }

/// PyTorch's batch norm counts its steps in a tensor of its own; here nothing depends on it.
inline constexpr std::string_view counts_batches = "num_batches_tracked";
inline bool is_count(std::string_view name) {
    return name.size() >= counts_batches.size() && name.substr(name.size() - counts_batches.size()) == counts_batches;
}

/// The meaning of a network's outputs in the metadata of its weights: "values", "logits" or "classes N". What stands
/// there stays.
inline constexpr std::string_view meaning_key = "trireme.outputs";
inline void add_meaning(safetensors_metadata& to, output_meaning const& m, std::size_t values) {
    if (m.classes != 0 && values % m.classes != 0) return;
    to.emplace(meaning_key, m.logistic ? "logits" : m.classes == 0 ? "values" : "classes " + std::to_string(m.classes));
}
/// None if a file does not say it. Throws data_error if that is no meaning of so many values.
inline std::optional<output_meaning> read_meaning(safetensors_file const& file, std::size_t values) {
    auto const found = file.metadata().find(meaning_key);
    if (found == file.metadata().end()) return {};
    std::string_view const text = found->second, of_classes = "classes ";
    output_meaning said{.logistic = text == "logits"};
    auto const number = text.starts_with(of_classes) ? text.substr(of_classes.size()) : "";
    auto const end = number.data() + number.size();
    bool const counts = !number.empty() && std::from_chars(number.data(), end, said.classes).ptr == end;
    if (text == "values" || said.logistic || (counts && said.classes != 0 && values % said.classes == 0)) return said;
    throw data_error(file.path(), "the metadata say " + std::string(meaning_key) + " = \"" + std::string(text) +
                                      "\", and an output of " + std::to_string(values) +
                                      " values is \"values\", \"logits\" or \"classes N\", N a divisor: correct it, or "
                                      "leave it out");
}
/// Reads the meaning, where `t` is a model, whose type does not say it.
template<class Trainer>
std::optional<output_meaning> read_meaning_for(Trainer const& t, safetensors_file const& file) {
    if constexpr (requires { t.meaning(); })
        return read_meaning(file, Trainer::network_type::output_extents::size);
    else
        return {};
}
template<class Trainer>
void add_meaning_of(Trainer const& t, safetensors_metadata& to) {
    using output = typename Trainer::network_type::output_extents;
    if constexpr (requires { t.meaning(); }) {
        if (auto const meaning = t.meaning()) add_meaning(to, *meaning, output::size);
    } else {
        add_meaning(to, meaning_of<typename Trainer::loss_type>(output::shape), output::size);
    }
}
template<class Trainer>
void set_meaning_of(Trainer& t, std::optional<output_meaning> const& meaning) {
    if constexpr (requires { t.meaning(); })
        if (meaning) t.set_meaning(*meaning);
}

/// The parameters and buffers of a network as tensors of a file.
template<class T>
std::vector<safetensors_tensor> weights_as_tensors(std::vector<named_tensor> const& of_network,
                                                   std::span<T const> parameters, std::span<T const> buffers,
                                                   std::int64_t const& num_batches_tracked) {
    std::vector<safetensors_tensor> tensors;
    for (auto const& tensor : of_network) {
        auto const values = (tensor.is_buffer ? buffers : parameters).subspan(tensor.first, tensor.shape.size());
        tensors.push_back({tensor.name, file_dtype<T>, file_shape(tensor.shape), std::as_bytes(values)});
        constexpr std::string_view last = "running_var";
        if (tensor.name.ends_with(last))
            tensors.push_back({tensor.name.substr(0, tensor.name.size() - last.size()) + std::string(counts_batches),
                               safetensors_dtype::i64,
                               {},
                               std::as_bytes(std::span(&num_batches_tracked, 1))});
    }
    return tensors;
}

/// The index of the first value that is not finite; the number of values if all are.
template<class T>
std::size_t first_not_finite(std::span<T const> values) {
    auto const bad = std::ranges::find_if_not(values, [](T value) { return std::isfinite(value); });
    return static_cast<std::size_t>(bad - values.begin());
}
/// The words for a tensor whose value `first` is the first one that is not finite.
template<class T>
std::string not_finite_text(std::string const& name, std::vector<std::size_t> const& shape, std::span<T const> values,
                            std::size_t first) {
    std::string index;
    auto rest = first;
    for (auto axis = shape.size(); axis-- > 0; rest /= shape[axis])
        index.insert(0, (axis == 0 ? "" : ", ") + std::to_string(rest % shape[axis]));
    auto const count = std::ranges::count_if(values, [](T value) { return !std::isfinite(value); });
    return "tensor " + name + " has " + (std::isnan(values[first]) ? "nan" : number_text(values[first])) + " at [" +
           index + "], and " + std::to_string(count) + " of its " + std::to_string(values.size()) +
           " values are not finite: ";
}

/// Reads the values of a file's tensor. Throws data_error for one that is not finite, with a remedy.
template<class T>
void read_finite(safetensors_file const& file, std::string const& name, std::vector<std::size_t> const& shape,
                 std::span<T> to, char const* remedy) {
    file.read(name, shape, to);
    auto const first = first_not_finite<T>(to);
    if (first == to.size()) return;
    throw data_error(file.path(), not_finite_text<T>(name, shape, to, first) +
                                      "these are of a training that has diverged, or the file is damaged; " + remedy);
}
inline constexpr char const* earlier_weights =
    "pass weights of an earlier step, or read these by safetensors_file and set them by load_parameters and "
    "load_buffers";

/// Reads a tensor of a file into values of a network.
template<class T>
void read_tensor(safetensors_file const& file, named_tensor const& tensor, file_tensor const& from, std::span<T> to,
                 char const* remedy) {
    auto shape = file_shape(tensor.shape);
    if (!from.transposed) return read_finite(file, from.name, shape, to, remedy);
    if (shape.size() != 2)
        throw usage_error("tensor " + tensor.name + " is to be read transposed from " + from.name +
                          ", and it is no matrix: say so of weights only");
    std::swap(shape[0], shape[1]);
    std::vector<T> columns(to.size());
    read_finite(file, from.name, shape, std::span(columns), remedy);
    for (std::size_t i = 0; i < shape[1]; ++i)
        for (std::size_t k = 0; k < shape[0]; ++k) to[i * shape[0] + k] = columns[k * shape[1] + i];
}

/// Reads the parameters and buffers of a network from the tensors of a file that find(tensor) names.
template<class T, class Find>
    requires std::invocable<Find const&, named_tensor const&>
void read_weights(safetensors_file const& file, std::vector<named_tensor> const& of_network, std::span<T> parameters,
                  std::span<T> buffers, Find const& find, char const* remedy = earlier_weights) {
    for (auto const& tensor : of_network)
        read_tensor(file, tensor, find(tensor),
                    (tensor.is_buffer ? buffers : parameters).subspan(tensor.first, tensor.shape.size()), remedy);
}

/// Reads them from a file that has just these, under their names.
template<class T>
void read_weights(safetensors_file const& file, std::vector<named_tensor> const& of_network, std::span<T> parameters,
                  std::span<T> buffers, char const* remedy = earlier_weights) {
    std::map<std::string, bool, std::less<>> known;
    auto const find = [&](named_tensor const& tensor) -> file_tensor {
        known[tensor.name] = true;
        return {tensor.name};
    };
    read_weights(file, of_network, parameters, buffers, find, remedy);
    for (auto const& entry : file.tensors())
        if (!known.contains(entry.name) && !is_count(entry.name))
            throw data_error(file.path(),
                             "tensor " + entry.name +
                                 " is not one of the network's: is the file of another network? tensors_of<network>() "
                                 "lists its names, and named<\"...\", layer> gives a layer another one");
}

} // namespace detail

/// Writes a trainer's parameters and running statistics as a safetensors file that PyTorch reads into a module of the
/// same names (layer/names.hpp): `model.load_state_dict(safetensors.torch.load_file(path))`. Layouts are PyTorch's, and
/// no bit changes. What stood at `path` stays until all is written. Every process of a trainer calls it, and that of
/// rank 0 writes. The metadata also say what the outputs mean, for models that read them.
///
/// `num_batches_tracked`: written beside each running_var, as PyTorch wants it.
/// Errors: data_error if the file cannot be written.
template<class Trainer>
void save_weights(Trainer const& t, std::string const& path, safetensors_metadata const& metadata = {},
                  std::int64_t num_batches_tracked = 0) {
    auto const parameters = t.gather_parameters(), buffers = t.gather_buffers();
    if (t.rank() != 0) return;
    using T = typename Trainer::value_type;
    auto about = metadata;
    detail::add_meaning_of(t, about);
    write_safetensors(path,
                      detail::weights_as_tensors<T>(tensors_of<typename Trainer::network_type>(), parameters, buffers,
                                                    num_batches_tracked),
                      about);
}

/// Sets a trainer's parameters and running statistics from a safetensors file, on all devices; what the optimizer keeps
/// stays. The file's tensors are those of the network, by name and shape: one that is missing or left over is an error,
/// and then nothing is changed, on any rank; so is a value that is not finite. Values of a narrower type are taken
/// exactly. Every process of a trainer calls it. A model takes the meaning of its outputs from there, too, if the file
/// says it.
///
/// Errors: data_error, naming file and tensor; over processes of the host also those of trainer::load, for the files of
/// other ranks.
template<class Trainer>
void load_weights(Trainer& t, std::string const& path) {
    using T = typename Trainer::value_type;
    std::optional<output_meaning> meaning;
    t.load([&](std::span<T> parameters, std::span<T> buffers) {
        safetensors_file const file(path);
        meaning = detail::read_meaning_for(t, file);
        detail::read_weights(file, tensors_of<typename Trainer::network_type>(), parameters, buffers);
    });
    detail::set_meaning_of(t, meaning);
}

/// Sets them from a file with other names and layouts: find(named_tensor) gives the file_tensor that each of the
/// network's tensors, by its name here, is read from. Tensors of the file that none is read from are left out. Errors:
/// as above; usage_error where what is no matrix is to be read transposed.
template<class Trainer, class Find>
void load_weights(Trainer& t, std::string const& path, Find const& find) {
    using T = typename Trainer::value_type;
    std::optional<output_meaning> meaning;
    t.load([&](std::span<T> parameters, std::span<T> buffers) {
        safetensors_file const file(path);
        meaning = detail::read_meaning_for(t, file);
        detail::read_weights(file, tensors_of<typename Trainer::network_type>(), parameters, buffers, find);
    });
    detail::set_meaning_of(t, meaning);
}

} // namespace trireme
