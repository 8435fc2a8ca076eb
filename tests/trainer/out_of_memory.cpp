// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/rehearsal.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/allocation_hook.hpp>
#include <support/messages.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

namespace trainer_out_of_memory_test {
using namespace trireme;

namespace {

using net = network<input<64>, linear<512>, relu, linear<10>>;
using on_devices = trainer<net, cross_entropy, adam, on<mesh<host, dp<dynamic>>>>;

/// No allocation with an alignment has more bytes, as long as the object lives.
struct scarce {
    explicit scarce(std::size_t bytes) { allocation_hook::most_aligned = bytes; }
    scarce(scarce const&) = delete;
    scarce& operator=(scarce const&) = delete;
    ~scarce() { allocation_hook::most_aligned = SIZE_MAX; }
};

/// The text of the usage_error that a trainer on so many devices throws; empty if it is made.
std::string refusal(int devices, std::size_t most) {
    scarce const memory(most);
    try {
        on_devices const t({}, {.devices = devices});
        return {};
    } catch (usage_error const& e) {
        CHECK(exit_code::of(e) == exit_code::usage);
        return e.what();
    }
}

} // namespace

TEST_SUITE("trainer/out_of_memory") {
    TEST_CASE("a trainer that has no memory says what the plan asks for, for what most is, and a remedy") {
        for (int const devices : {1, 3}) {
            CAPTURE(devices);
            auto const plan = on_devices::plan(batch{32}, on_devices::layout_of({}, {.devices = devices}));
            auto const own = plan.memory(0); // and of the others, any of which may be the first to fail
            for (int rank = 1; rank < devices; ++rank) REQUIRE(plan.memory(rank).total() == own.total());
            auto const has = [&, text = refusal(devices, own.optimizer_state - 1)](std::string const& part) {
                CAPTURE(text);
                CHECK(text.find(part) != std::string::npos);
            };
            has("has no memory for this trainer: the plan asks for " + with_commas(own.total()) + " bytes on device ");
            has("(parameters " + with_commas(own.parameters) + ", gradients " + with_commas(own.gradients) +
                ", optimizer state " + with_commas(own.optimizer_state) + ", activations ");
            has("; most are optimizer state: use an optimizer that keeps less, as sgd, or a smaller network");
            auto const all = with_commas(own.total() * static_cast<bytes_t>(devices));
            has(devices == 1 ? "); most are "
                             : "), and for " + all + " on all " + std::to_string(devices) + "; most are ");
        }
    }

    TEST_CASE("a trainer with just enough memory is made, also after one that had too little") {
        auto const state = on_devices::plan(batch{32}, on_devices::layout_of({})).memory(0).optimizer_state;
        CHECK(refusal(1, state - 1) != "");
        CHECK(refusal(1, state + cache_line) == ""); // and the count of its updates
    }

    TEST_CASE("a model that has no memory says so likewise") {
        auto const own = model<net>::plan(batch{32}).memory();
        std::string text;
        {
            scarce const memory(own.parameters - 1);
            text = test_support::refusal([] { model<net> const m; });
        }
        CAPTURE(text);
        CHECK(text.starts_with("device 0 has no memory for this model: the plan asks for " + with_commas(own.total()) +
                               " bytes on device 0 (parameters " + with_commas(own.parameters) + ", activations "));
        CHECK(
            text.ends_with("; most are parameters: use a smaller network, or cut it into stages of several machines"));
    }

    TEST_CASE("bytes of an accelerator's plan do not stand for memory that the host lacks") {
        using on_accelerator = trainer<net, cross_entropy, adam, on<mesh<rehearsal, dp<1>>>>;
        auto const own = on_accelerator::plan(batch{32}).memory();
        std::string text;
        {
            scarce const memory(own.parameters - 1);
            text = test_support::text_of_error<std::exception>([] { on_accelerator const t; }, "made");
        }
        CAPTURE(text);
        CHECK(text != "made");
        CHECK(text.find("the plan asks for") == std::string::npos);
    }
}

} // namespace trainer_out_of_memory_test
