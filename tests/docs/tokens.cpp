// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The code of the guide on tokens; see guide.cpp.

#include <trireme/readers.hpp>
#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/files.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <type_traits>
#include <vector>

namespace docs_tokens_test {
using namespace trireme;

namespace {

/// A text whose next byte depends on more than the last one.
std::string two_words() {
    std::string text;
    for (unsigned i = 0, n = 1; i < 1500; ++i, n = n * 1103515245 + 12345) text += n >> 16 & 1 ? "abcd" : "adcb";
    return text;
}

/// The mean loss of the last steps of many.
template<class Trainer, class Source>
double learnt(Trainer& t, Source const& samples) {
    double last = 0;
    for (std::size_t i = 0; i < 200; ++i) {
        auto const loss = t.step(samples.take(i * 8 % (samples.size() - 8), 8)).loss;
        if (i >= 180) last += loss / 20;
    }
    return last;
}

/// A new folder as the working directory, with files of 2049 tokens; the old one again at its end.
class in_folder_of_files {
public:
    in_folder_of_files() : before_(std::filesystem::current_path()) {
        std::filesystem::current_path(here_.path());
        write("train.bin", std::vector<std::uint16_t>(2049, 50256));
        write("llama.bin", std::vector<std::uint32_t>(2049, 128255));
        write("large.txt", std::vector<std::uint8_t>(2049, 255));
        std::string header("\x93NUMPY\x01\x00\x76\x00{'descr': '<u2', 'fortran_order': False, 'shape': (2049,), }", 70);
        header.resize(128, ' ');
        write("tokens.npy", std::vector<char>(header.begin(), header.end()));
        write("tokens.npy", std::vector<std::uint16_t>(2049, 50256));
    }
    in_folder_of_files(in_folder_of_files const&) = delete;
    in_folder_of_files& operator=(in_folder_of_files const&) = delete;
    ~in_folder_of_files() { std::filesystem::current_path(before_); }

private:
    template<class N>
    void write(char const* name, std::vector<N> const& numbers) const {
        std::ofstream out(name, std::ios::binary | std::ios::app);
        out.write(reinterpret_cast<char const*>(numbers.data()), std::streamsize(numbers.size() * sizeof(N)));
    }

    std::filesystem::path before_;
    files::folder here_;
};

} // namespace

TEST_CASE("from a bigram to a transformer") {
    std::string text = two_words();
    // [windows]
    constexpr std::size_t window = 16;
    auto const samples = text_windows(text, window); // input: 16 bytes; targets: the byte behind each of them
    // [/windows]
    CHECK(samples.size() == (text.size() - 1) / window);
    // [bigram]
    using bigram = network<input<window>, embedding<byte_vocabulary, byte_vocabulary>>;
    static_assert(bigram::parameters == 256 * 256); // a score for each byte behind each byte, and nothing else
    // [/bigram]
    // [transformer]
    using block = sequential<residual<sequential<layer_norm, linear<3 * 32>, attention<heads<4>, causal>, linear<32>>>,
                             residual<sequential<layer_norm, linear<4 * 32>, gelu_tanh, linear<32>>>>;
    using transformer = network<input<window>, embedding<byte_vocabulary, 32>, learned_positions, repeat<2, block>,
                                layer_norm, linear<byte_vocabulary>>;
    using short_form = gpt<gpt_sizes{.layers = 2, .width = 32, .heads = 4, .context = window, .vocabulary = 256}>;
    static_assert(std::is_same_v<transformer, short_form>);
    // [/transformer]
    trainer<bigram, cross_entropy, adamw> by_table{{.learning_rate = 0.05f, .batch = 8}};
    trainer<transformer, cross_entropy, adamw> by_attention{{.learning_rate = 3e-3f, .batch = 8}};
    double const table = learnt(by_table, samples), attending = learnt(by_attention, samples);
    // behind b, c and d stands one of two bytes, and the byte before tells which: the bigram guesses, half of the time
    CHECK(table > 0.4);
    CHECK(attending < 0.75 * table);

    // [weights_dropped]
    using careful =
        network<input<window>, embedding<byte_vocabulary, 32>, learned_positions, dropout<percent<10>>,
                residual<sequential<layer_norm, linear<3 * 32>, attention<heads<4>, causal, dropout<percent<10>>>,
                                    linear<32>, dropout<percent<10>>>>,
                layer_norm, linear<byte_vocabulary>>;
    // [/weights_dropped]
    trainer<careful, cross_entropy, adamw> by_less{{.learning_rate = 3e-3f, .batch = 8}};
    CHECK(learnt(by_less, samples) < table);

    // [tied_end]
    using tied_end = network<input<window>, embedding<byte_vocabulary, 32>, learned_positions, repeat<2, block>,
                             layer_norm, tied<0>>; // scores by the rows of the embedding's table
    static_assert(tied_end::parameters + 32 * 256 + 256 == transformer::parameters);
    static_assert(
        std::is_same_v<
            tied_end,
            gpt<gpt_sizes{.layers = 2, .width = 32, .heads = 4, .context = window, .vocabulary = 256, .tied = true}>>);
    // [/tied_end]
    // [without_bias]
    using lean = network<input<window>, embedding<byte_vocabulary, 32>, rms_norm, linear<64, without_bias>, gelu_tanh,
                         linear<byte_vocabulary, without_bias>>;
    static_assert(lean::parameters == 256 * 32 + 32 + 64 * 32 + 256 * 64);
    // [/without_bias]
    CHECK(lean::output_extents::shape == make_shape(window, 256));

    // [stages]
    using in_stages =
        trainer<transformer, cross_entropy, adamw, on<mesh<host, dp<2>, pp<2>>>, pipeline<one_f_one_b, 4>>;
    constexpr auto plan = in_stages::plan(batch{64});
    static_assert(plan.wire(0, 1).bytes >= 64 / 2 * window * 32 * sizeof(float)); // values of a replica
    // [/stages]
    CHECK(plan.parameters == transformer::parameters);
}

TEST_CASE("files of tokens") {
    in_folder_of_files const here;
    // [token_files]
    auto const of_nano_gpt = file_windows<std::uint16_t>("train.bin", 1024, 50257, drawn_each_epoch); // GPT-2's tokens
    auto const of_llama = file_windows<std::uint32_t>("llama.bin", 1024, 128256);                     // Llama 3's
    auto const of_numpy = npy_windows(map_npy("tokens.npy"), 1024, 50257);
    auto const of_bytes = file_windows<std::uint8_t>("large.txt", 1024, byte_vocabulary); // any text
    // [/token_files]
    CHECK(of_nano_gpt.size() == 1);
    CHECK(of_llama.size() == 2);
    CHECK(of_numpy.size() == 2);
    CHECK(of_bytes.size() == 2);
}

TEST_CASE("tokens that are ignored") {
    // [ignored_tokens]
    std::vector<int> asked, answers; // 16 tokens of each sample, and what is to be said behind each of them, or -1
    for (int i = 0; i < 64 * 16; ++i) {
        asked.push_back(i * i % 11);
        answers.push_back(i % 16 < 8 ? -1 : i * i % 11); // behind the first eight nothing
    }
    samples_in_memory const talks(asked, make_shape(16), answers, make_shape(16), 11, -1);
    using net = network<input<16>, embedding<11, 8>, linear<11>>;
    trainer<net, cross_entropy_with<ignoring<-1>>, adamw> t{{.learning_rate = 0.05f, .batch = 8}};
    // [/ignored_tokens]
    double loss = 0;
    for (int i = 0; i < 60; ++i) loss = t.step(talks).loss;
    CHECK(loss < 0.1);
    CHECK(t.evaluate(talks).accuracy == 1);
    // [scores_of_tokens]
    auto const said = t.predict(talks);
    double const among_two = top_k_accuracy(said, talks, 2); // of the tokens that count
    confusion_matrix const matrix(said, talks);              // matrix(token, taken for)
    // [/scores_of_tokens]
    CHECK(among_two == 1);
    CHECK(matrix.accuracy() == 1);
}

TEST_CASE("attention by hand") {
    // three tokens with one head of two values; query, key and value of each
    std::vector<float> const x{1, 0, 1, 0, 5, 1, /**/ 0, 1, 0, 1, 6, 2, /**/ 1, 1, 1, 1, 7, 3};
    // [attention]
    auto const by_hand = [&](std::size_t t) { // the first value of token t
        float sum = 0, of_weights = 0;
        for (std::size_t s = 0; s <= t; ++s) { // causal: itself, and those before it
            float const score = x[6 * t] * x[6 * s + 2] + x[6 * t + 1] * x[6 * s + 3]; // query of t times key of s
            float const weight = std::exp(score / std::sqrt(2.0f));
            sum += weight * x[6 * s + 4];
            of_weights += weight;
        }
        return sum / of_weights;
    };
    model<network<input<3, 6>, attention<heads<1>, causal>>> m;
    auto const said = m.predict(samples_in_memory(x, make_shape(3, 6)));
    // [/attention]
    for (std::size_t t = 0; t < 3; ++t) CHECK(said[0][2 * t] == doctest::Approx(by_hand(t)));
}

} // namespace docs_tokens_test
