// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Trainings that go on from a checkpoint, on other devices, after crashes, and from files that are not what they say.

#include <trireme/checkpoints.hpp>

#include <doctest/doctest.h>
#include <support/files.hpp>
#include <support/going_on.hpp>
#include <support/left_out.hpp>
#include <support/messages.hpp>
#include <trainer/system_calls.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/stat.h>

namespace trainer_checkpoint_test {
using namespace trireme;
using namespace test_going_on;
namespace fs = std::filesystem;
using files::content_of;
using test_support::has;
using test_support::left_out;

namespace {

using adamw_trainer = any_trainer<host, adamw, clip_norm>;
using small_net = network<input<1, 28, 28>, avg_pool2d<4>, flatten, linear<12>, hyperbolic_tangent, linear<10>>;

template<class Network, class Optimizer, class... Policies>
using plain_trainer = trainer<Network, cross_entropy, Optimizer, on<mesh<host, dp<dynamic>>>, Policies...>;
using small_trainer = plain_trainer<small_net, adam>;

std::set<std::string> names_in(std::string const& folder) {
    std::set<std::string> all;
    for (auto const& entry : fs::directory_iterator(folder)) all.insert(entry.path().filename().string());
    return all;
}

template<class T>
bool same_state(training_snapshot<T> const& a, training_snapshot<T> const& b) {
    bool same = same_bits(a.parameters, b.parameters) && same_bits(a.buffers, b.buffers) && a.updates == b.updates &&
                a.steps == b.steps && a.epochs == b.epochs && a.seed == b.seed && a.learning_rate == b.learning_rate &&
                a.optimizer.size() == b.optimizer.size();
    for (std::size_t k = 0; same && k < a.optimizer.size(); ++k) same = same_bits(a.optimizer[k], b.optimizer[k]);
    return same;
}

/// load_checkpoint says this of a folder, to a trainer that is as it was before.
template<class Trainer>
std::string refusal(Trainer& t, std::string const& folder) {
    auto const before = t.snapshot();
    std::string said = "loaded";
    try {
        load_checkpoint(t, folder);
    } catch (data_error const& e) {
        said = std::string("data: ") + e.what();
    } catch (usage_error const& e) {
        said = std::string("usage: ") + e.what();
    }
    if (said != "loaded") CHECK(same_state(before, t.snapshot()));
    return said;
}
/// A training before a step and after it: a save of the second replaces that of the first.
struct two_states {
    small_trainer before, after;
    training_snapshot<float> old_state, new_state;
    files::folder folder;
    std::string path = folder.path("run");

    two_states() {
        before.step(made_up(32));
        after.step(made_up(32));
        after.step(made_up(32, 2));
        old_state = before.snapshot();
        new_state = after.snapshot();
    }
    /// True if the folder has the second, whole, and false if it has the first.
    bool is_new() {
        REQUIRE(refusal(reader_, path) == "loaded");
        auto const found = reader_.snapshot();
        bool const has_old = same_state(found, old_state), has_new = same_state(found, new_state);
        CHECK(has_old != has_new);
        return has_new;
    }

private:
    small_trainer reader_;
};

} // namespace

TEST_SUITE("trainer/checkpoint") {
    TEST_CASE("a training goes on with the same bits on other devices and stages") {
        goes_on_anywhere<adamw_trainer>({{{2, 2}, {1, 1}}, {{1, 1}, {3, 1}}, {{3, 1}, {2, 3}}, {{1, 4}, {2, 2}}});
    }

    TEST_CASE("so it does with every optimizer, and one copy of the weights") {
        auto const goes_on = [&]<class T>(std::type_identity<T>) {
            auto const train = [](T& t) {
                std::vector<double> told;
                for (int i = 0; i < 3; ++i) told.push_back(t.step(made_up(40, 1 + t.steps())).loss);
                return told;
            };
            auto const make = [](int devices) {
                return T({.learning_rate = 0.02f, .batch = 40, .logical_shards = 6}, {.devices = devices});
            };
            auto one = make(1);
            train(one);
            auto const wanted = train(one);
            files::folder const folder;
            for (auto const& [from, to] : {std::pair{3, 2}, {1, 5}}) {
                auto first = make(from), second = make(to);
                train(first);
                save_checkpoint(first, folder.path());
                load_checkpoint(second, folder.path());
                CHECK(same_bits(train(second), wanted));
                CHECK(same_state(second.snapshot(), one.snapshot()));
            }
        };
        using shards = reproducible<fixed_tree, dynamic>;
        goes_on(std::type_identity<plain_trainer<small_net, sgd, shards>>{});
        goes_on(std::type_identity<plain_trainer<small_net, rmsprop_momentum, shards>>{});
        goes_on(std::type_identity<plain_trainer<small_net, sgd_momentum, shards, hold_weights<once>>>{});
        goes_on(std::type_identity<plain_trainer<small_net, adam, shards, hold_weights<once>>>{});
    }

    TEST_CASE("without reproducible the bits are those of the same devices, and others are near") {
        auto const wanted = uninterrupted<adamw_trainer>({2, 1}, 0);
        files::folder const folder;
        begin_in<adamw_trainer>(folder.path(), {2, 1}, 0);
        CHECK(go_on_from<adamw_trainer>(folder.path(), {2, 1}, 0) == wanted);
        small_trainer one, two({}, {.devices = 2});
        one.step(made_up(32));
        save_checkpoint(one, folder.path());
        load_checkpoint(two, folder.path());
        auto const loss = one.step(made_up(32, 2)).loss;
        CHECK(two.step(made_up(32, 2)).loss == doctest::Approx(loss).epsilon(1e-6));
        CHECK(test_support::apart(two.gather_parameters(), one.gather_parameters()) < 1e-6);
    }

    TEST_CASE("nothing of the state is there in vain: without it, the training goes on otherwise") {
        using snapshot = training_snapshot<float>;
        auto first = at<adamw_trainer>({});
        train_on(first);
        first.set_learning_rate(0.02f);
        auto const state = first.snapshot();
        auto const wanted = train_on(first);
        auto const with = [&](auto const& change) {
            auto t = at<adamw_trainer>({2, 2});
            t.restore([&](snapshot& s) {
                s = state;
                change(s);
            });
            return train_on(t);
        };
        CHECK(with([](snapshot&) {}) == wanted);
        CHECK_FALSE(with([](snapshot& s) { s.parameters[3] += 0.5f; }) == wanted);
        CHECK_FALSE(with([](snapshot& s) { s.buffers[1] += 0.5f; }) == wanted);
        for (std::size_t k = 0; k < 2; ++k)
            CHECK_FALSE(with([k](snapshot& s) { s.optimizer[k].assign(s.optimizer[k].size(), 0.0f); }) == wanted);
        CHECK_FALSE(with([](snapshot& s) { s.updates = 0; }) == wanted);
        CHECK_FALSE(with([](snapshot& s) { s.steps -= 1; }) == wanted);
        CHECK_FALSE(with([](snapshot& s) { s.epochs = 0; }) == wanted);
        CHECK_FALSE(with([](snapshot& s) { s.learning_rate = 0.01f; }) == wanted);
        CHECK_THROWS_WITH_AS(with([](snapshot& s) { s.seed = 4; }), doctest::Contains("begun with seed 4"),
                             usage_error);
        CHECK_THROWS_WITH_AS(with([](snapshot& s) { s.optimizer.pop_back(); }), doctest::Contains("other sizes"),
                             usage_error);
    }

    TEST_CASE("a learning rate that no trainer can have, or that is not filled in, is not restored") {
        small_trainer t({.seed = 1});
        t.step(made_up(32));
        auto const before = t.snapshot();
        auto const restored_with = [&](float rate) {
            return test_support::refusal([&] {
                t.restore([&](auto& s) {
                    s = before;
                    s.steps += 7;
                    s.learning_rate = rate;
                });
            });
        };
        for (float const wrong : {-0.5f, INFINITY, NAN, training_snapshot<float>().learning_rate}) {
            CAPTURE(wrong);
            CHECK(test_support::says(restored_with(wrong), {"learning_rate = ", "a finite number, not negative"}));
            CHECK(same_state(before, t.snapshot()));
        }
        CHECK(restored_with(0) == ""); // set_learning_rate takes it, too
        CHECK(t.current_options().learning_rate == 0);
        CHECK(t.steps() == 8);
    }

    TEST_CASE("the folder has one checkpoint, of files that PyTorch reads") {
        files::folder const folder;
        auto const path = folder.path("new");
        small_trainer t;
        t.step(made_up(32));
        CHECK_FALSE(has_checkpoint(path));
        save_checkpoint(t, path + "/");
        CHECK(names_in(path) ==
              std::set<std::string>{"manifest.json", "weights.a.safetensors", "optimizer.a.safetensors"});
        t.step(made_up(32));
        save_checkpoint(t, path, {{"words", "\"quoted\", \xC3\xBC"}});
        CHECK(names_in(path) ==
              std::set<std::string>{"manifest.json", "weights.b.safetensors", "optimizer.b.safetensors"});
        auto const m = read_checkpoint(path);
        CHECK(m.steps == 2);
        CHECK(m.optimizer == "adam");
        CHECK(m.notes == checkpoint_notes{{"words", "\"quoted\", \xC3\xBC"}});
        model<small_net> alone;
        load_weights(alone, path + "/weights.b.safetensors");
        CHECK(alone.gather_parameters() == t.gather_parameters());
        safetensors_file const of_adam(path + "/optimizer.b.safetensors");
        CHECK(of_adam.at("2.weight.exp_avg").shape == std::vector<std::size_t>{12, 49});
        CHECK(of_adam.find("2.weight.exp_avg_sq") != nullptr);
    }

    TEST_CASE("notes that no manifest has room for are refused, and the checkpoint that is there stays") {
        files::folder const folder;
        small_trainer t({.seed = 1});
        auto const path = folder.path("run");
        save_checkpoint(t, path);
        auto const before = t.gather_parameters();
        auto const names = names_in(path);
        t.step(made_up(32));
        auto const said = test_support::refusal(
            [&] { save_checkpoint(t, path, {{"log", std::string(std::size_t{1} << 20, '\n')}}); });
        CHECK(test_support::says(
            said, {"the manifest of the checkpoint has 2097", "may have 1048576", "make its notes shorter"}));
        CHECK(names_in(path) == names);
        load_checkpoint(t, path);
        CHECK(t.gather_parameters() == before);
    }

    TEST_CASE("a save over a manifest that is damaged leaves the files beside it until its own are whole") {
        files::folder const folder;
        small_trainer t({.seed = 1});
        auto const path = folder.path("run");
        for (char const* const slot : {"a", "b"}) {
            save_checkpoint(t, path);
            auto const weights = path + "/weights." + slot + ".safetensors";
            CHECK(fs::exists(weights));
            auto const manifest = path + "/manifest.json", kept = path + "/kept.json";
            auto const in_the_way = path + "/optimizer." + (slot[0] == 'a' ? "b" : "a") + ".safetensors";
            fs::rename(manifest, kept);
            folder.write("run/manifest.json", {'{'});
            fs::create_directory(in_the_way);
            auto const before = content_of(weights);
            t.step(made_up(32));
            CHECK_THROWS_AS(save_checkpoint(t, path), data_error);
            CHECK(content_of(weights) == before);
            fs::remove(in_the_way);
            fs::remove(path + "/weights." + (slot[0] == 'a' ? "b" : "a") + ".safetensors");
            fs::rename(kept, manifest);
            load_checkpoint(t, path);
        }
    }

    TEST_CASE("a manifest that cannot be read, or is another version's, is not written over") {
        files::folder const folder;
        small_trainer t({.seed = 1});
        auto const path = folder.path("run");
        save_checkpoint(t, path);
        auto const manifest = path + "/manifest.json";
        auto text = content_of(manifest);
        std::string_view const format = "trireme checkpoint 1";
        auto const version = std::search(text.begin(), text.end(), format.begin(), format.end());
        REQUIRE(version != text.end());
        version[static_cast<std::ptrdiff_t>(format.size()) - 1] = '2';
        folder.write("run/manifest.json", text);
        CHECK_THROWS_AS(save_checkpoint(t, path), data_error);
        CHECK_THROWS_AS(prepare_checkpoint(path), data_error);
        CHECK(content_of(manifest) == text);
        fs::remove(manifest);
        fs::create_directory(manifest);
        CHECK_THROWS_AS(save_checkpoint(t, path), data_error);
        CHECK(names_in(path) ==
              std::set<std::string>{"manifest.json", "weights.a.safetensors", "optimizer.a.safetensors"});
    }

    TEST_CASE("what cannot be gone on from is refused in a sentence, and nothing changes") {
        files::folder const folder;
        small_trainer saved({.seed = 1}), t({.seed = 1});
        saved.step(made_up(32));
        t.step(made_up(32, 2));
        auto const path = folder.path("run");
        CHECK(has(refusal(t, path), "no checkpoint in this folder"));
        fs::create_directory(path);
        CHECK(has(refusal(t, path), "no checkpoint in this folder"));
        CHECK(has(refusal(t, folder.write("file", {1, 2})), "no checkpoint in this folder"));
        save_checkpoint(saved, path);

        small_trainer other_seed({.seed = 2});
        CHECK(has(refusal(other_seed, path), "usage: the training was begun with seed 1"));
        plain_trainer<small_net, sgd_momentum> other_optimizer({.seed = 1});
        CHECK(has(refusal(other_optimizer, path), "has the optimizer adam, and this trainer sgd_momentum"));
        plain_trainer<small_net, adam, precision<f64>> other_dtype({.seed = 1});
        CHECK(has(refusal(other_dtype, path), "has the dtype F32, and this trainer F64"));
        plain_trainer<test_networks::softmax_regression, adam> other_network({.seed = 1});
        CHECK(has(refusal(other_network, path), "pass a file of this network"));

        auto const manifest = path + "/manifest.json";
        fs::rename(manifest, manifest + ".away");
        CHECK(::mkfifo(manifest.c_str(), 0600) == 0);
        CHECK(has(refusal(t, path), "this is a pipe"));
        fs::remove(manifest);
        fs::rename(manifest + ".away", manifest);
        for (auto const* const name : {"/weights.a.safetensors", "/optimizer.a.safetensors"}) {
            fs::rename(path + name, path + "/away");
            CHECK(has(refusal(t, path), "cannot be opened"));
            fs::rename(path + "/away", path + name);
        }
        CHECK(refusal(t, path) == "loaded");
        CHECK(same_state(t.snapshot(), saved.snapshot()));
    }

    TEST_CASE("one bit that is not as it was is noticed, in any of the files; so is an end that is missing") {
        files::folder const folder;
        small_trainer saved, t;
        saved.step(made_up(32));
        save_checkpoint(saved, folder.path(), {{"note", "1"}});
        for (auto const& name : names_in(folder.path())) {
            auto const whole = content_of(folder.path(name));
            auto const step = name == "manifest.json" ? 1 : whole.size() / 150;
            for (std::size_t i = 0; i < whole.size(); i += step) {
                CAPTURE(i);
                auto damaged = whole;
                damaged[i] ^= static_cast<std::uint8_t>(1u << i % 7);
                folder.write(name, damaged);
                bool const is_space = i + 1 == whole.size() || whole[i] == ' '; // behind the manifest, or a header
                auto const said = refusal(t, folder.path());
                CHECK_MESSAGE((is_space || said.starts_with("data: ") || said.starts_with("usage: ")), said);
            }
            for (std::size_t const end : {std::size_t{0}, whole.size() / 2, whole.size() - 2}) {
                folder.write(name, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(end)});
                CHECK(refusal(t, folder.path()).starts_with("data: "));
            }
            folder.write(name, whole);
        }
        auto const manifest = content_of(folder.path("manifest.json"));
        std::string text(manifest.begin(), manifest.end());
        text.insert(1, R"("of the future":"1",)");
        folder.write("manifest.json", {text.begin(), text.end()});
        CHECK(has(refusal(t, folder.path()), "a manifest has no 'of the future'"));
        folder.write("manifest.json", manifest);
        CHECK(refusal(t, folder.path()) == "loaded");
    }

    TEST_CASE("a folder that cannot be saved in is refused before the training") {
        files::folder const folder;
        CHECK_THROWS_WITH_AS(prepare_checkpoint(folder.path("no/such")), doctest::Contains("cannot be opened"),
                             data_error);
        CHECK_THROWS_WITH_AS(prepare_checkpoint(folder.write("file", {1})), doctest::Contains("cannot be opened"),
                             data_error);
        CHECK_THROWS_WITH_AS(prepare_checkpoint("/proc"), doctest::Contains("no file can be made"), data_error);
        auto const path = folder.path("new");
        prepare_checkpoint(path);
        CHECK(names_in(path).empty());
        small_trainer t;
        {
            detail::checkpoint_folder const somebody(path);
            CHECK_THROWS_WITH_AS(save_checkpoint(t, path), doctest::Contains("another process is saving"), data_error);
        }
        save_checkpoint(t, path);
        prepare_checkpoint(path);
        CHECK(names_in(path).size() == 3);
    }

    TEST_CASE("who is killed at any system call of a save leaves the old checkpoint, or the new one") {
        using namespace test_system_calls;
        two_states states;
        int old_ones = 0, new_ones = 0, stops = 0;
        for (bool killed = true; killed; ++stops) {
            CAPTURE(stops);
            save_checkpoint(states.before, states.path);
            auto const end = run_traced(
                [&] {
                    save_checkpoint(states.after, states.path);
                    return 0;
                },
                stops + 1);
            killed = end.killed;
            if (!killed) CHECK(end.code == 0);
            bool const is_new = states.is_new();
            CHECK((killed || is_new));
            ++(is_new ? new_ones : old_ones);
        }
        CHECK(old_ones > 40);
        CHECK(new_ones > 4);
        MESSAGE("killed at ", stops - 1, " places: ", old_ones, " times the old checkpoint, ", new_ones,
                " times the new one");
    }

    TEST_CASE("a save that fails at any system call says so; the training goes on, and the old checkpoint stands") {
        using namespace test_system_calls;
        if (left_out(!can_fail_calls, "system calls of this processor cannot be made to fail")) return;
        two_states states;
        enum { went_well = 0, failed = 1, cannot_go_on = 2 };
        int failures = 0;
        for (int const error : {ENOSPC, EIO}) {
            bool hit = true;
            for (int call = 1; hit; ++call) {
                CAPTURE(call);
                save_checkpoint(states.before, states.path);
                auto const end = run_traced(
                    [&] {
                        small_trainer here; // threads do not come along when a process forks
                        here.restore([&](auto& state) { state = states.new_state; });
                        int code = went_well;
                        try {
                            save_checkpoint(here, states.path);
                        } catch (data_error const&) {
                            code = failed;
                        }
                        try {
                            here.step(made_up(32, 3));
                        } catch (...) {
                            code = cannot_go_on;
                        }
                        return code;
                    },
                    0, call, error);
                hit = end.failed;
                CHECK((end.code == went_well || end.code == failed));
                bool const is_new = states.is_new();
                if (end.code == went_well) CHECK(is_new);
                failures += end.code == failed ? 1 : 0;
            }
        }
        CHECK(failures > 30);
        MESSAGE(failures, " saves failed");
    }
}

} // namespace trainer_checkpoint_test
