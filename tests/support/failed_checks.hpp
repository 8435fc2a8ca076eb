// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <string_view>

// Failed assertions of a process that a test has forked. doctest counts them in that process alone, which ends without
// doctest's report: the process itself has to tell its test.
namespace test_failed_checks {

inline std::atomic<bool> any = false;
inline std::string words; ///< of the first one; only the thread that has set `any` writes them

/// A forked process calls this first: its parent's failures are the parent's own.
inline void forget() noexcept {
    any = false;
    words.clear();
}

/// The first failed assertion since `forget`: file, line, expression and values. Empty if none has failed. The threads
/// that assert have ended, or have been joined, before this call.
inline std::string const& first() noexcept { return words; }

inline void note(char const* file, int line, std::string_view said) {
    if (!any.exchange(true)) words = std::string(file) + ":" + std::to_string(line) + ": " + std::string(said);
}

/// doctest calls a listener for each assertion, in the thread that makes it.
class listener : public doctest::IReporter {
public:
    explicit listener(doctest::ContextOptions const& /*unused*/) {}
    void log_assert(doctest::AssertData const& a) override {
        if (!a.m_failed || (a.m_at & doctest::assertType::is_warn) != 0) return;
        std::string said = std::string(doctest::assertString(a.m_at)) + "( " + a.m_expr;
        if ((a.m_at & doctest::assertType::is_throws_as) != 0) said += std::string(", ") + a.m_exception_type;
        said += " ) is not correct";
        if (a.m_decomp.size() > 0) said += std::string("; values: ") + a.m_decomp.c_str();
        if (a.m_exception.size() > 0) said += std::string("; thrown: ") + a.m_exception.c_str();
        note(a.m_file, a.m_line, said);
    }
    void log_message(doctest::MessageData const& m) override {
        if ((m.m_severity & doctest::assertType::is_warn) == 0) note(m.m_file, m.m_line, m.m_string.c_str());
    }
    void report_query(doctest::QueryData const& /*unused*/) override {}
    void test_run_start() override {}
    void test_run_end(doctest::TestRunStats const& /*unused*/) override {}
    void test_case_start(doctest::TestCaseData const& /*unused*/) override {}
    void test_case_reenter(doctest::TestCaseData const& /*unused*/) override {}
    void test_case_end(doctest::CurrentTestCaseStats const& /*unused*/) override {}
    void test_case_exception(doctest::TestCaseException const& /*unused*/) override {}
    void subcase_start(doctest::SubcaseSignature const& /*unused*/) override {}
    void subcase_end() override {}
    void test_case_skipped(doctest::TestCaseData const& /*unused*/) override {}
};

/// One registration for all files of a program.
inline int const registered = doctest::registerReporter<listener>("failed checks", 0, false);

} // namespace test_failed_checks
