// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of a GPT's step, in the lines of measure.hpp: matrix products beside oneDNN's and OpenBLAS's, everything
// else beside what bench.py says.

#include "measure.hpp"

#include <cblas.h>
#include <dnnl.hpp>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <unordered_map>

namespace {

using namespace bench;

/// The product c = a b + beta c of a library: a M x K, b K x N, c M x N, row by row; those that are transposed lie the
/// other way round.
struct product {
    int m, n, k;
    bool a_transposed, b_transposed;
    float const *a, *b;
    float* c;
    float beta;

    int a_row() const noexcept { return a_transposed ? m : k; }
    int b_row() const noexcept { return b_transposed ? k : n; }
};

void by_openblas(product const& p) {
    cblas_sgemm(CblasRowMajor, p.a_transposed ? CblasTrans : CblasNoTrans, p.b_transposed ? CblasTrans : CblasNoTrans,
                p.m, p.n, p.k, 1, p.a, p.a_row(), p.b, p.b_row(), p.beta, p.c, p.n);
}

void by_onednn_gemm(product const& p) {
    dnnl_sgemm(p.a_transposed ? 'T' : 'N', p.b_transposed ? 'T' : 'N', p.m, p.n, p.k, 1, p.a, p.a_row(), p.b, p.b_row(),
               p.beta, p.c, p.n);
}

/// A primitive of oneDNN, made once: matmul, which adds to c by a sum behind the product.
class onednn_matmul {
public:
    explicit onednn_matmul(product const& p) {
        auto const matrix = [](int rows, int columns, bool transposed) {
            return dnnl::memory::desc({rows, columns}, dnnl::memory::data_type::f32,
                                      transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1});
        };
        auto const a = matrix(p.m, p.k, p.a_transposed), b = matrix(p.k, p.n, p.b_transposed),
                   c = matrix(p.m, p.n, false);
        dnnl::post_ops behind;
        if (p.beta != 0) behind.append_sum(p.beta);
        dnnl::primitive_attr attributes;
        attributes.set_post_ops(behind);
        primitive_ = dnnl::matmul({{a, b, c}, attributes, engine_});
        arguments_ = {{DNNL_ARG_SRC, {a, engine_, const_cast<float*>(p.a)}},
                      {DNNL_ARG_WEIGHTS, {b, engine_, const_cast<float*>(p.b)}},
                      {DNNL_ARG_DST, {c, engine_, p.c}}};
    }
    void operator()() { primitive_.execute(stream_, arguments_); }

private:
    dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream_{engine_};
    dnnl::matmul primitive_;
    std::unordered_map<int, dnnl::memory> arguments_;
};

/// Beside `ours`, which took `work` operations at that rate: the same product by each library, in turn.
void report_product(options const& o, std::string const& name, double work, double ours, product const& p) {
    auto const measure = [&](char const* peer, auto&& call) {
        call();
        auto const theirs = rate(o.seconds, [&] {
            call();
            return work;
        });
        report(name, peer, work, ours, theirs, "GFLOP/s");
    };
    measure("onednn-matmul", onednn_matmul(p));
    measure("onednn-gemm", [&] { by_onednn_gemm(p); });
    measure("openblas", [&] { by_openblas(p); });
}

/// The rate of a kernel that does `work` in one call, warm.
template<class F>
double rate_of(options const& o, double work, F&& kernel) {
    kernel();
    return rate(o.seconds, [&] {
        kernel();
        return work;
    });
}

/// Linear over a sample's tokens. Ours adds the bias, and its gradient, which no library's product does. Returns the
/// rate of forward.
template<std::size_t Tokens, std::size_t In, std::size_t Out>
double measure_linear(options const& o) {
    using G = linear_geometry<In, Out, Tokens>;
    numbers const x(Tokens * In), dx(Tokens * In), y(Tokens * Out), dy(Tokens * Out), w(Out * In), dw(Out * In), b(Out),
        db(Out);
    auto const *const from = x.data(), *const weights = w.data(), *const bias = b.data(), *const gradient = dy.data();
    constexpr int tokens = Tokens, in = In, out = Out;
    auto const name = "gpt/" + std::to_string(tokens) + 'x' + std::to_string(in) + '-' + std::to_string(out) + '/';
    constexpr double work = 2.0 * tokens * in * out;
    portable const k;
    auto const forward = rate_of(o, work, [&] { linear_forward<G, 1>(k, from, weights, bias, y.data()); });
    report_product(o, name + "forward", work, forward, {tokens, out, in, false, true, from, weights, y.data(), 0});
    auto const input = rate_of(o, work, [&] { linear_backward_input<G, 1>(k, weights, gradient, dx.data()); });
    report_product(o, name + "backward_input", work, input,
                   {tokens, in, out, false, false, gradient, weights, dx.data(), 0});
    auto const by_weights =
        rate_of(o, work, [&] { linear_backward_weights<G, 1>(k, from, gradient, dw.data(), db.data()); });
    report_product(o, name + "backward_weights", work, by_weights,
                   {out, in, tokens, true, false, gradient, from, dw.data(), 1});
    return forward;
}

/// Everything of a GPT of windows of Width tokens.
template<std::size_t Width, std::size_t Heads>
void measure_width(options const& o) {
    constexpr std::size_t tokens = Width;
    auto const roof = measure_linear<tokens, Width, 3 * Width>(o);
    measure_linear<tokens, Width, Width>(o);
    measure_linear<tokens, Width, 4 * Width>(o);
    measure_linear<tokens, 4 * Width, Width>(o);
    if constexpr (Width != 256) measure_linear<tokens, Width, 256>(o);

    portable const k;
    constexpr std::size_t n = tokens * Width;
    numbers const x(3 * n), dx(3 * n), y(n), dy(n), w(Width), b(Width), dw(Width), db(Width);
    auto const *const from = x.data(), *const gradient = dy.data(), *const scale = w.data(), *const offset = b.data();
    auto const width = std::to_string(Width) + '/';

    using heads = attention_geometry<tokens, Width, Heads, true>;
    constexpr double pair = Width * tokens * (tokens + 1) / 2.0; // values of the pairs that are not masked
    auto const attention = [&](char const* way, double work, auto&& kernel) {
        report("gpt/attention" + width + way, "product", work, rate_of(o, work, kernel), roof, "GFLOP/s");
    };
    attention("forward", 4 * pair, [&] { attention_forward<heads, 1>(k, from, y.data()); });
    auto const* const attended = y.data();
    attention("backward_input", 10 * pair,
              [&] { attention_backward_input<heads, 1>(k, from, attended, gradient, dx.data()); });

    using rows = token_geometry<tokens, Width>;
    auto const norm = [&](char const* way, double arrays, auto&& kernel, auto&& loop) {
        auto const work = arrays * n * sizeof(float);
        report("gpt/layer_norm" + width + way, "memory", work, rate_of(o, work, kernel), rate_of(o, work, loop),
               "GB/s");
    };
    norm(
        "forward", 2, [&] { layer_norm_forward<rows, 1>(k, from, scale, offset, 1e-5, y.data()); },
        [&] { scaled_copy(y.data(), from, n, 0.5f); });
    norm(
        "backward_input", 3, [&] { layer_norm_backward_input<rows, 1>(k, from, gradient, scale, 1e-5, dx.data()); },
        [&] { add_values(k, from, gradient, dx.data(), n); });
    norm(
        "backward_weights", 2,
        [&] { layer_norm_backward_weights<rows, 1>(k, from, gradient, 1e-5, dw.data(), db.data()); },
        [&] { db.data()[0] = sum_of_products(from, gradient, n); });

    auto const values = [&]<class F>(F) { return rate_of(o, n, [&] { activation_forward<F>(k, from, y.data(), n); }); };
    auto const slopes = [&]<class F>(F) {
        return rate_of(o, n, [&] { activation_backward_input<F>(k, from, attended, gradient, dx.data(), n); });
    };
    report("gpt/gelu_tanh" + width + "forward", "sigmoid", n, values(gelu_tanh_function{}), values(sigmoid_function{}),
           "Gvalues/s");
    report("gpt/gelu_tanh" + width + "backward_input", "sigmoid", n, slopes(gelu_tanh_function{}),
           values(sigmoid_function{}), "Gvalues/s");
}

} // namespace

int main(int argc, char** argv) {
    options o;
    if (argc > 1) o.rounds = std::atoi(argv[1]);
    for (int r = 0; r < o.rounds; ++r) {
        measure_width<128, 4>(o);
        measure_width<256, 8>(o);
    }
}
