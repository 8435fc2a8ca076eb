// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/regular_file.hpp>
#include <trireme/data/mapped_file.hpp>
#include <trireme/data/npy.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/data/samples.hpp>
#include <trireme/data/tokens.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace trireme {

namespace detail {

static_assert(std::endian::native == std::endian::little,
              "files of tokens are mapped as they are, little-endian: use a little-endian host");

// llm.c writes 256 numbers of 32 bits before the tokens: a magic number, which tells the size of a token, a version,
// the number of tokens, and zeros. Source: github.com/karpathy/llm.c, dev/data/data_common.py
struct token_header {
    std::uint32_t magic, version;
    std::size_t bytes_of_token;
};
inline constexpr std::size_t token_header_bytes = 256 * sizeof(std::uint32_t);
inline constexpr token_header token_headers[] = {{20240520, 1, 2}, {20240801, 7, 4}}; // of GPT-2's tokens, of Llama 3's

/// The byte at which the tokens of a file begin: behind a header of llm.c, if there is one.
TRIREME_COLD inline std::size_t first_token_byte(regular_file const& file, std::size_t bytes_of_token) {
    std::uint32_t begin[3] = {};
    if (file.size() < token_header_bytes) return 0;
    file.read(0, std::as_writable_bytes(std::span(begin)));
    for (auto const& each : token_headers) {
        if (begin[0] != each.magic || begin[1] != each.version) continue;
        if (each.bytes_of_token != bytes_of_token)
            file.fail(0, "the header of llm.c says that tokens have " + std::to_string(8 * each.bytes_of_token) +
                             " bits, and they were asked for with " + std::to_string(8 * bytes_of_token) +
                             ": call file_windows<std::uint" + std::to_string(8 * each.bytes_of_token) + "_t>");
        auto const follow = file.size() - token_header_bytes, wanted = std::uint64_t{begin[2]} * bytes_of_token;
        if (follow != wanted)
            file.fail(8, "the header of llm.c promises " + std::to_string(begin[2]) + " tokens, which take " +
                             std::to_string(wanted) + " bytes, and " + std::to_string(follow) +
                             " follow: the file is truncated or damaged, fetch or write it again");
        return token_header_bytes;
    }
    return 0;
}

} // namespace detail

/// Windows of a file of tokens that own its mapping; see token_windows. The file may be larger than the memory: the
/// system reads the pages that are touched, and gives them up for others. It consists of little-endian numbers of type
/// N, as numpy's tofile writes them (nanoGPT), alone or behind a header of llm.c, which is recognised.
///
///     auto const samples = file_windows<std::uint16_t>("train.bin", 1024, 50257, drawn_each_epoch);
///     auto const of_bytes = file_windows<std::uint8_t>("large.txt", 128, byte_vocabulary); // a text
///
/// Every token is compared with the vocabulary once, which reads the file from begin to end; a vocabulary that has all
/// numbers of type N saves that. Nobody may change the file while samples of it are in use, as with map_npy: one that
/// is cut off makes an access raise SIGBUS, which ends the process.
/// Errors: data_error with the path for a file that cannot be opened, is no regular one, is empty, has no whole number
/// of tokens, fewer than context + 1 from `first` on, another number or another type than its header says, or a token
/// that is not in [0, vocabulary); usage_error for a context of 0.
template<sample_number N>
    requires std::integral<N>
TRIREME_COLD owned_samples file_windows(std::string const& path, std::size_t context, std::size_t vocabulary,
                                        std::optional<std::size_t> first = 0) {
    detail::regular_file const file(path);
    auto const begin = detail::first_token_byte(file, sizeof(N));
    if (auto const bytes = file.size() - begin; bytes % sizeof(N) != 0)
        file.fail(begin, "tokens of " + std::to_string(sizeof(N)) + " bytes do not divide the " +
                             std::to_string(bytes) +
                             " bytes of the file: it is truncated, or its tokens have another type; fetch or write it "
                             "again, or call file_windows with that type");
    auto const mapped = std::make_shared<detail::mapped_file const>(file);
    auto const bytes = mapped->bytes().subspan(begin);
    auto w = detail::windows_of(
        reinterpret_cast<N const*>(bytes.data()), bytes.size() / sizeof(N), context, vocabulary, first,
        [&](std::size_t token, std::string const& what) { file.fail(begin + token * sizeof(N), what); });
    w.inputs.mapped = w.targets.mapped = true;
    return {mapped, w.size, w.inputs, w.targets};
}

/// Windows of an array of tokens, of one dimension and whole numbers of any type, that own it; see token_windows. With
/// map_npy the file may be larger than the memory.
///
///     auto const samples = npy_windows(map_npy("train.npy"), 1024, 50257);
///
/// Errors: data_error with the path for an array of another shape or of other numbers, of fewer than context + 1 from
/// `first` on, or with a token that is not in [0, vocabulary); usage_error for a context of 0.
TRIREME_COLD inline owned_samples npy_windows(npy_array const& tokens, std::size_t context, std::size_t vocabulary,
                                              std::optional<std::size_t> first = 0) {
    if (tokens.shape().size() != 1)
        tokens.fail("an array of shape " + detail::npy::tuple(tokens.shape()) +
                    " is no sequence of tokens: save array.reshape(-1)");
    return with_number_of(tokens.kind(), [&]<class N>(N) -> owned_samples {
        if constexpr (std::integral<N>) {
            auto const numbers = tokens.numbers<N>();
            auto w = detail::windows_of(numbers.data(), numbers.size(), context, vocabulary, first,
                                        [&](std::size_t token, std::string const& what) { tokens.fail(what, token); });
            w.inputs.mapped = w.targets.mapped = tokens.mapped();
            return {tokens.holder(), w.size, w.inputs, w.targets};
        } else {
            tokens.fail("tokens are whole numbers, and these are not: save array.astype(numpy.int32)");
        }
    });
}

} // namespace trireme
