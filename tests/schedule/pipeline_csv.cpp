// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/pipeline/csv.hpp>

#include <trireme/schedules.hpp>

#include <doctest/doctest.h>
#include <support/built_step.hpp>
#include <support/damaged_files.hpp>
#include <support/files.hpp>
#include <support/forked.hpp>
#include <support/left_out.hpp>
#include <support/messages.hpp>
#include <support/sanitizers.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <sys/resource.h>
#include <unistd.h>

namespace schedule_pipeline_csv_test {
using namespace trireme;
using test_support::built_step;
using test_support::says;

namespace {

constexpr auto compute = schedule_cells::compute, with_moves = schedule_cells::compute_and_moves,
               with_waits = schedule_cells::compute_moves_and_waits;

schedule_orders parsed(std::string_view text) { return parse_schedule_csv(text, "some.csv"); }

program_fault fault_of(std::string_view text, lowering const& by = by_counters) {
    auto const orders = parsed(text);
    return verify(built_step(orders).program, by).fault;
}

schedule_choice const built_in[] = {gpipe{},
                                    one_f_one_b{},
                                    interleaved<2>{},
                                    interleaved<3>{},
                                    breadth_first<2>{},
                                    zero_bubble_h1{},
                                    zero_bubble_h2{},
                                    zero_bubble_auto<1, 1, 1, 0, 16>{},
                                    zero_bubble_v{},
                                    v_half{},
                                    v_min{},
                                    dual_pipe_v{}};

/// The data_error for a text that is refused.
test_support::fault refusal_of(std::string_view text) {
    return test_support::fault_of([&] { (void)parsed(text); });
}

/// The cells of a stage's micro-batches from 0 on, such as "3F0,3F1,".
std::string cells(int stage, char kind, int micro_batches) {
    std::string text;
    for (int m = 0; m < micro_batches; ++m) text += std::to_string(stage) + kind + std::to_string(m) + ',';
    return text;
}

/// Lets this process have so many bytes of address space more than it has.
void limit_memory(std::size_t bytes) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    auto const most = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + bytes;
    struct ::rlimit const limit = {most, most};
    REQUIRE(::setrlimit(RLIMIT_AS, &limit) == 0);
}

// What PyTorch 2.15.0's schedules dump (`_dump_csv`), of two ranks with two stages each.
constexpr char const* torch_interleaved = "0F0,0F1,2F0,2F1,,,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,,2B2,,2B3,,0B2,,0B3\r\n"
                                          ",1F0,1F1,,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,,1B2,,1B3\r\n";
constexpr char const* torch_looped_bfs = "0F0,0F1,2F0,2F1,,,2B1,2B0,0B1,0B0\r\n,1F0,1F1,3F0,3F1,3B1,3B0,1B1,1B0\r\n";
constexpr char const* torch_zbv =
    "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,3W1,0F3,0I0,0W0,3F2,3I2,3W2,0I1,0W1,3F3,3I3,3W3,0I2,0W2,0I3,0W3\r\n"
    ",1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1F3,1I1,1W1,2F3,2I2,2W2,1I2,2I3,1I3,1W2,2W3,1W3\r\n";
constexpr char const* torch_dual_pipe_v =
    "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,3B2,(3F3;0B1)OVERLAP_F_B,3B3,0I2,0W2,0I3,"
    "0W3\r\n1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,2B2,1B2,2I3,1I3,"
    "2W3,1W3\r\n";
constexpr char const* torch_zbv_with_comms =
    "0UNSHARD,3UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,0F2,0SEND_F2,3F0,3RECV_F1,3I0,3SEND_B0,3W0,3F1,3I1,3SEND_B1,"
    "0RECV_B0,3W1,0F3,0SEND_F3,3RECV_F2,0I0,0WAIT_SEND_F0,0W0,3F2,3I2,3SEND_B2,0RECV_B1,3W2,0I1,0WAIT_SEND_F1,3RECV_F3,"
    "0W1,3F3,3I3,3SEND_B3,0RECV_B2,3W3,3REDUCE_GRAD,0RECV_B3,3WAIT_REDUCE_GRAD,3RESHARD,0I2,0WAIT_SEND_F2,0W2,0I3,"
    "0WAIT_SEND_F3,0W3,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD,3WAIT_SEND_B0,3WAIT_SEND_B1,3WAIT_SEND_B2,3WAIT_SEND_B3"
    "\r\n1UNSHARD,2UNSHARD,1RECV_F0,1F0,1RECV_F1,2F0,2SEND_F0,1RECV_F2,1F1,2F1,2SEND_F1,2RECV_B0,2I0,2WAIT_SEND_F0,2W0,"
    "1F2,2RECV_B1,1I0,1SEND_B0,1W0,1RECV_F3,2F2,2SEND_F2,2I1,2WAIT_SEND_F1,2W1,1F3,2RECV_B2,1I1,1SEND_B1,1W1,2F3,"
    "2SEND_F3,2I2,2WAIT_SEND_F2,2W2,2RECV_B3,1I2,1SEND_B2,2I3,2WAIT_SEND_F3,1I3,1SEND_B3,1W2,2W3,2REDUCE_GRAD,"
    "2WAIT_REDUCE_GRAD,2RESHARD,1W3,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1RESHARD,1WAIT_SEND_B0,1WAIT_SEND_B1,1WAIT_SEND_B2,"
    "1WAIT_SEND_B3\r\n";

} // namespace

TEST_SUITE("schedule/pipeline_csv") {
    TEST_CASE("a step is written as PyTorch writes it, with and without sends, receives and waits") {
        built_step const s(schedule_choice(one_f_one_b{}), {2, 2});
        CHECK(schedule_csv(s.program) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
        CHECK(schedule_csv(s.program, with_moves) == "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                                                     "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
        CHECK(schedule_csv(s.program, with_waits) ==
              "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0WAIT_SEND_F0,0WAIT_SEND_F1\n"
              "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1WAIT_SEND_B0,1WAIT_SEND_B1\n");
        // forward and backward at once are two cells; what follows the micro-batches has none
        CHECK(schedule_csv(built_step(schedule_choice(one_f_one_b{}), {1, 2, 3, 2}).program) == "0F0,0B0,0F1,0B1\n");
        // a role sends itself nothing: stages 1 and 2 are both of role 1
        CHECK(schedule_csv(built_step(schedule_choice(zero_bubble_v{}), {2, 1}).program, with_moves) ==
              "0F0,0SEND_F0,3RECV_F0,3F0,3I0,3SEND_B0,3W0,0RECV_B0,0I0,0W0\n"
              "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2I0,1I0,1SEND_B0,2W0,1W0\n");
    }

    TEST_CASE("what is written is read again: the same tasks, places and proofs, whatever the schedule") {
        for (auto const& s : built_in)
            for (step_shape const shape : {step_shape{1, 3}, {2, 4}, {3, 6}, {4, 8}, {3, 7}}) {
                int const roles = shape.roles, micro_batches = shape.micro_batches;
                built_step const from(s, shape);
                if (from.program.tail[0] == 0) continue; // too few micro-batches for it
                for (auto const cells : {compute, with_moves, with_waits}) {
                    CAPTURE(s.name);
                    CAPTURE(roles);
                    auto const orders = parsed(schedule_csv(from.program, cells));
                    CHECK(orders.roles() == roles);
                    CHECK(orders.micro_batches() == micro_batches);
                    CHECK(orders.chunks() == s.chunks);
                    CHECK(orders.has_moves() == (cells != compute && roles > 1));
                    CHECK(orders.slots() <= s.slots(roles, micro_batches));
                    built_step const again(orders);
                    REQUIRE(again.program.all.size() == from.program.all.size());
                    for (int r = 0; r < roles; ++r) {
                        CHECK(again.program.frames[r] == from.program.frames[r]);
                        for (int c = 0; c < s.chunks; ++c) CHECK(again.program.stage(r, c) == from.program.stage(r, c));
                    }
                    CHECK(schedule_csv(again.program, with_moves) == schedule_csv(from.program, with_moves));
                    if (orders.slots() == s.slots(roles, micro_batches))
                        CHECK(std::equal(again.program.all.begin(), again.program.all.end(), from.program.all.begin()));
                    for (auto const& by : {by_counters, by_messages, by_rendezvous})
                        CHECK(verify(again.program, by).ok() == verify(from.program, by).ok());
                }
            }
    }

    TEST_CASE("what PyTorch's schedules dump is read and proved") {
        for (auto const* text : {torch_interleaved, torch_zbv, torch_dual_pipe_v, torch_zbv_with_comms}) {
            auto const orders = parsed(text);
            CHECK(orders.roles() == 2);
            CHECK(orders.chunks() == 2);
            CHECK(orders.micro_batches() == 4);
            CHECK(orders.has_moves() == (text == torch_zbv_with_comms));
            bool const in_a_v = text != torch_interleaved;
            CHECK(orders.stage(0, 1) == (in_a_v ? 3 : 2));
            CHECK(orders.stage(1, 1) == (in_a_v ? 2 : 3));
            CHECK(verify(built_step(orders).program).ok());
        }
        // the places where PyTorch puts sends and receives go through one queue, those that follow do not
        CHECK(fault_of(torch_zbv_with_comms, by_messages) == program_fault::none);
        CHECK(fault_of(torch_zbv, by_messages) == program_fault::mismatch);
        auto const derived = parsed(torch_zbv_with_comms).without_moves();
        CHECK(schedule_csv(built_step(derived).program) == schedule_csv(built_step(parsed(torch_zbv)).program));
    }

    // Each of these is taken by `_load_csv` of PyTorch 2.15.0's runtime for schedules, and by `_validate_schedule`: as
    // "compute_only", those with sends as "compute_comms" (there with a WAIT_SEND behind each send, left out here).
    TEST_CASE("what PyTorch's validator lets pass and verify refuses") {
        SUBCASE("gradients are added in another order: the bits of the sum depend on the layout") {
            CHECK(fault_of("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n") == program_fault::sum_order);
            CHECK(fault_of(torch_looped_bfs) == program_fault::sum_order); // as one of PyTorch's own does
        }
        SUBCASE("one micro-batch goes back twice and another one never: it counts them together") {
            CHECK(fault_of("0F0,0F1,0B0,0I0,0W0\n1F0,1F1,1B0,1B1\n") == program_fault::mismatch);
            CHECK(fault_of("0F0,0F1,0B0,0I0,0W0\n") == program_fault::twice);
        }
        SUBCASE("gradients by the weights are added twice") {
            CHECK(fault_of("0F0,0F1,0I0,0W0,0W0,0I1,0W1\n1F0,1F1,1B0,1B1\n") == program_fault::twice);
        }
        SUBCASE("the last stage goes forward twice, where it receives one time") {
            CHECK(fault_of("0F0,0F1,0B0,0B1\n1F0,1F1,1F1,1B0,1B1\n") == program_fault::mismatch);
        }
        SUBCASE("each role waits for the other") {
            auto const* text = "0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1\n"
                               "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n";
            CHECK(fault_of(text) == program_fault::deadlock);
            auto const orders = parsed(text);
            auto const v = verify(built_step(orders).program);
            CHECK(v.role == 0);
            CHECK(v.task == 1);
        }
        SUBCASE("values are taken for those of another micro-batch") {
            CHECK(fault_of("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                           "1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n") == program_fault::mismatch);
        }
        SUBCASE("values are sent before they are there, or never received") {
            CHECK(fault_of("0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n") == program_fault::elsewhere);
            CHECK(fault_of("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n") == program_fault::mismatch);
        }
        SUBCASE("numbers have gaps, and letters follow a cell") {
            CHECK(says(refusal_of("0F0,0F5,0B0,0B5\n1F0,1F5,1B0,1B5\n").what, {"none computes micro-batch 1"}));
            CHECK(says(refusal_of("0F0x,0B0\n1F0 and more,1B0\n").what, {"line 1, cell 1 ('0F0x')", "no task"}));
        }
        SUBCASE("sends that end when they are received: the same cells, another transport") {
            auto const* text = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n";
            for (auto const& by : {by_counters, by_messages, by_rendezvous})
                CHECK(fault_of(text, by) == program_fault::none);
            CHECK(fault_of(torch_interleaved, by_messages) == program_fault::none);
            CHECK(fault_of(torch_interleaved, by_rendezvous) == program_fault::deadlock);
            CHECK(fault_of(torch_zbv_with_comms, by_rendezvous) == program_fault::deadlock);
        }
    }

    TEST_CASE("a send whose gradient was never computed, and a way back without a way there") {
        CHECK(fault_of("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1SEND_B0,1B0\n") == program_fault::elsewhere);
        CHECK(fault_of("0B0,0F0\n") == program_fault::order);
        CHECK(fault_of("0F0,0W0,0I0\n") == program_fault::order);
        CHECK(fault_of("0F0\n") == program_fault::incomplete);
        CHECK(fault_of("0F0,0F0,0F0,0F0,0F0,0B0\n") == program_fault::twice);
    }

    TEST_CASE("blanks, quotes, empty cells and lines at the end are no part of a schedule") {
        auto const* plain = "0F0,0B0\n1F0,1B0\n";
        auto const wanted = schedule_csv(built_step(parsed(plain)).program);
        for (auto const* text :
             {"0F0,0B0\n1F0,1B0", "0F0,0B0\r\n1F0,1B0\r\n",
              "\xEF\xBB\xBF"
              "0F0,0B0\n1F0,1B0\n\n \r\n",
              ",, 0F0 ,\t,0B0,,\n\"1F0\",\"\",1B0\n", "(0F0;0B0)OVERLAP_F_B\n( 1F0 ;;1B0 )OVERLAP_F_B\n",
              "0UNSHARD,0F0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD\n1F0,1WAIT_SEND_F7,1B0\n"})
            CHECK(schedule_csv(built_step(parsed(text)).program) == wanted);
    }

    TEST_CASE("a text that holds no lists of roles is refused with its place, the rule and the remedy") {
        struct {
            char const* text;
            std::uint64_t byte;
            std::initializer_list<char const*> words;
        } const wrong[] = {
            {"", 0, {"some.csv, byte 0", "no schedule", "write a line for each role"}},
            {"\n\r\n", 0, {"no schedule"}},
            {"0F0,0B0\n\n1F0,1B0\n", 8, {"line 2, cell 1: role 1 computes nothing", "delete the line"}},
            {"0F0,0B0\n,,1SEND_B0\n", 8, {"line 2", "role 1 computes nothing"}},
            {"0F0,0B0\n1F0, 1X0\n", 13, {"line 2, cell 2 ('1X0')", "no task", "such as 0F1"}},
            {"0F0 0B0\n", 0, {"line 1, cell 1 ('0F0 0B0')", "comma between two"}},
            {"F0\n", 0, {"('F0')"}},
            {"0f0\n", 0, {"('0f0')"}},
            {"-1F0\n", 0, {"('-1F0')"}},
            {"0F0,0B\n", 4, {"cell 2 ('0B')", "micro-batch is missing", "behind B"}},
            {"0F65535\n", 0, {"number of the micro-batch is too large", "65534"}},
            {"0F99999999999999999999\n", 0, {"too large"}},
            {"512F0\n", 0, {"number of the stage is too large", "511"}},
            {"(0F0;0B0)\n", 0, {"('(0F0;0B0)')", "OVERLAP_F_B", "a cell of its own"}},
            {"(0F0;0B0\n", 0, {"OVERLAP_F_B"}},
            {"0F0,(0F1;(0B0))OVERLAP_F_B\n", 4, {"OVERLAP_F_B"}},
            {"(0F0;0?0)OVERLAP_F_B\n", 5, {"no task"}},
            {"0F0,0B0\n0F1,0B1\n", 8, {"line 2, cell 1 ('0F1'): stage 0 is of role 0 (line 1), too", "to one role"}},
            {"0F0,0B0\n2F0,2B0\n", 8, {"('2F0')", "without gaps", "none computes stage 1"}},
            {"0F0,1F0,1B0,0B0\n2F0,2B0\n", 16, {"role 1 has 1 stage, and role 0 has 2", "as many"}},
            {"0F0,1F0,2F0,3F0,4F0,5F0,6F0,7F0,8F0\n", 0, {"role 0 has 9 stages, and may have 8"}},
            {"0F0,0F2,0B0,0B2\n", 4, {"('0F2')", "none computes micro-batch 1"}},
            {"0F0,0SEND_F0,1RECV_F0,0B0\n1F0,1B0\n", 13, {"role 0 does not compute stage 1", "its own stages"}},
            {"0F0,0B0,0SEND_B0\n1F0,1B0\n", 8, {"stage 0 has no stage on that side", "leave the cell out"}},
            {"0F0,0B0\n1F0,1SEND_F0,1B0\n", 12, {"stage 1 has no stage on that side"}},
            {"0F0,0SEND_F0,1F0,1B0,0B0\n", 4, {"stage 0 and stage 1 are of one role"}},
            {"0F0,0SEND_F1,0B0\n1F0,1B0\n", 4, {"('0SEND_F1')", "none computes this micro-batch"}}};
        for (auto const& w : wrong) {
            auto const r = refusal_of(w.text);
            CAPTURE(w.text);
            CHECK(says(r.what, w.words));
            CHECK(r.byte == w.byte);
            CHECK(r.what.find('\n') == std::string::npos);
        }
        std::string lines;
        for (int r = 0; r < max_roles + 1; ++r) lines += std::to_string(r) + "F0," + std::to_string(r) + "B0\n";
        CHECK(says(refusal_of(lines).what, {"line 65, cell 1", "a role too many", "at most 64"}));
        lines.resize(lines.rfind("64F0"));
        CHECK(fault_of(lines + "\n") == program_fault::none);
    }

    TEST_CASE("sizes are limited: memory does not grow with the numbers in a file, but with its cells") {
        std::string many;
        for (int i = 0; i < 65535; ++i) many += "0F0,";
        CHECK(parsed(many).order(0).size() == 65535);
        CHECK(says(refusal_of(many + "0B0").what, {"cell 65536", "a task too many", "at most 65535"}));
        std::string const large((std::size_t{8} << 20) + 1, ',');
        CHECK(says(refusal_of(large).what, {"8388609 bytes", "8388608", "leave out"}));
    }

    TEST_CASE("a schedule of few cells and many micro-batches is judged, not played with as many places as it names") {
        auto text = cells(0, 'F', 8192); // 8 stages of one role: 65536 gradients
        for (int stage = 1; stage < 8; ++stage) text += std::to_string(stage) + "B0,";
        auto const orders = parsed(text);
        CHECK(orders.slots() == max_places);
        CHECK(verify(built_step(orders).program).fault == program_fault::mismatch);
    }

    TEST_CASE("reading takes memory for a file's cells, up to 64 times its bytes, whatever numbers they have") {
        if (test_support::left_out(sanitized, "a sanitizer reserves more address space than the test allows")) return;
        std::string unfinished = cells(0, 'F', 65000), uneven, even, with_moves_only;
        for (int role = 0; role < max_roles; ++role) {
            auto const stage = std::to_string(role);
            for (int chunk = role == 0 ? 1 : 0; chunk < max_chunks; ++chunk)
                unfinished += std::to_string(max_roles * chunk + role) + "F0,";
            unfinished += '\n';
            for (int i = 0; role == 0 && i < 60000; ++i) uneven += "0F0,";
            uneven += stage + "F0," + stage + "B0\n";
            even += cells(role, 'F', 200) + cells(role, 'B', 200) + '\n';
            for (int i = 0; role == 1 && i < 60000; ++i) with_moves_only += "1RECV_F0,";
            with_moves_only += stage + "F0," + stage + "B0\n";
        }
        std::string const one_role = cells(0, 'F', 32767) + cells(0, 'B', 32767);
        for (auto const& text : {unfinished, uneven, even, one_role, with_moves_only}) {
            CAPTURE(text.substr(0, 20));
            forked_ranks reader(1, [&](int) {
                limit_memory(64 * text.size() + (std::size_t{1} << 20));
                CHECK(parsed(text).order(0).size() > 1);
            });
            all_end_well(reader, std::chrono::minutes(2));
        }
    }

    TEST_CASE("a file is read; one that cannot be is refused with its path") {
        files::folder const there;
        std::string_view const text = torch_zbv;
        auto const path = there.write("zbv.csv", files::bytes(text.begin(), text.end()));
        auto const orders = read_schedule_csv(path);
        CHECK(orders.name() == path);
        CHECK(built_step(orders).program.schedule == path);
        CHECK(verify(built_step(orders).program).ok());
        auto const refused = [](std::string const& p) {
            try {
                (void)read_schedule_csv(p);
            } catch (data_error const& e) {
                CHECK(e.path() == p);
                return std::string(e.what());
            }
            return std::string("not refused");
        };
        CHECK(says(refused(there.path("none.csv")), {"none.csv", "cannot be opened"}));
        CHECK(says(refused(there.path()), {"regular files only", "a folder"}));
        CHECK(says(refused(there.write("x.csv", {'0', 'G', '1'})), {"x.csv, byte 0: line 1, cell 1 ('0G1')"}));
        auto const large = there.write("large.csv", {});
        std::filesystem::resize_file(large, std::uintmax_t{1} << 40); // a hole: it takes no room
        CHECK(says(refused(large), {"has 1099511627776 bytes, and may have 8388608"}));
    }

    TEST_CASE("damaged files are refused or judged") {
        for (auto const* text : {torch_interleaved, torch_dual_pipe_v, torch_zbv_with_comms}) {
            std::string_view const whole = text;
            int judged = 0;
            auto const refused = files::refused_when_damaged(
                400, files::bytes(whole.begin(), whole.end()), "0123FBIW,;()\nSEND_", [&](std::string const& path) {
                    auto const orders = read_schedule_csv(path);
                    for (auto const& s : {orders, orders.without_moves()}) {
                        built_step const step(s);
                        for (auto const& by : {by_counters, by_messages, by_rendezvous})
                            if (auto const v = verify(step.program, by); !v.ok())
                                CHECK(says(marked_lists(step.program, v, by), {describe(v.fault), ">> "}));
                    }
                    ++judged;
                });
            CHECK(refused > 100);
            CHECK(judged > 0);
        }
    }
}

} // namespace schedule_pipeline_csv_test
