#include "generation/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/file.h"

namespace rlgen::generation {
namespace {

using testing::HasSubstr;

class Resume : public testing::Test {
 protected:
  Resume() : path_(testing::TempDir() + "/resume_" + std::to_string(::getpid()) + ".jsonl") {}
  ~Resume() override { std::remove(path_.c_str()); }

  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string content() { return *read_file(path_); }
  std::unique_ptr<RolloutFile> open(ExistingFile existing) {
    auto file = RolloutFile::open(path_, existing);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  StatusOr<FinishedWork> read_work() { return FinishedWork::read(*open(ExistingFile::kResume)); }

  static std::string failed_line(int64_t number) {
    return write_failed_prompt({.id = "c", .input_line = number, .error = absl::InternalError("e")},
                               {.seed = 5});
  }
  static std::string line(const std::string& id, int32_t sample, int64_t run_seed = 5) {
    Rollout rollout;
    rollout.id = id;
    rollout.sample = sample;
    rollout.prompt_token_ids = {1};
    rollout.sampling = params();
    rollout.numerics = "n";
    return *write_rollout_line(rollout, {.seed = run_seed}) + "\n";
  }
  static SamplingParams params() {
    SamplingParams sampling;
    sampling.n = 3;
    sampling.seed = 4;
    return sampling;
  }

  std::string path_;
};

TEST_F(Resume, RefusesAFileThatIsThere) {
  write("x\n");
  const auto file = RolloutFile::open(path_, ExistingFile::kRefuse);
  EXPECT_EQ(file.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(message_of(file.status()), HasSubstr("--overwrite"));
  EXPECT_EQ(content(), "x\n");
}

TEST_F(Resume, OverwriteStartsEmpty) {
  write("x\n");
  EXPECT_TRUE(open(ExistingFile::kOverwrite)->append("y").ok());
  EXPECT_EQ(content(), "y\n");
}

TEST_F(Resume, CutsATornLastLine) {
  write("one\ntwo\nthr");
  const auto file = open(ExistingFile::kResume);
  EXPECT_EQ(file->torn_bytes(), 3);
  EXPECT_TRUE(file->append("three").ok());
  EXPECT_EQ(content(), "one\ntwo\nthree\n");
}

TEST_F(Resume, ATornFirstLineLeavesNothing) {
  write("on");
  EXPECT_EQ(open(ExistingFile::kResume)->torn_bytes(), 2);
  EXPECT_EQ(content(), "");
}

TEST_F(Resume, APipeIsRefused) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const auto file = RolloutFile::open(path_, ExistingFile::kResume);
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("is a pipe"));
}

TEST_F(Resume, ASecondWriterIsRefused) {
  const auto first = open(ExistingFile::kResume);
  const auto second = RolloutFile::open(path_, ExistingFile::kResume);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(Resume, AFullDiskIsAnErrorAndStaysOne) {
  auto file = RolloutFile::open("/dev/full", ExistingFile::kOverwrite);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->append("x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ((*file)->append("x").code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(Resume, GivesTheSamplesThatAreLeft) {
  write(line("a", 1) + line("b", 0) + line("b", 1) + line("b", 2) + failed_line(6) + "\n");
  const auto work = read_work();
  ASSERT_TRUE(work.ok()) << work.status();
  EXPECT_EQ(work->run_seed(), 5);
  EXPECT_EQ(work->rollouts(), 4);
  EXPECT_EQ(*work->samples_left("a", {1}, params(), "n"), (std::vector<int32_t>{0, 2}));
  EXPECT_TRUE(work->samples_left("b", {1}, params(), "n")->empty());
  EXPECT_EQ(*work->samples_left("new", {1}, params(), "n"), (std::vector<int32_t>{0, 1, 2}));
}

TEST_F(Resume, WhatFailedIsNotFinished) {
  Rollout failed;
  failed.id = "a";
  failed.sample = 0;
  failed.prompt_token_ids = {9};
  failed.finish = {.reason = FinishReason::kError, .error = absl::DataLossError("nan")};
  const std::string failed_sample = *write_rollout_line(failed, {.seed = 5});
  write(failed_sample + "\n" + line("a", 1) + failed_line(6) + "\n" + failed_line(7) + "\n" +
        failed_line(6) + "\n");
  auto work = read_work();
  ASSERT_TRUE(work.ok()) << work.status();
  EXPECT_EQ(work->rollouts(), 1);
  EXPECT_EQ(*work->samples_left("a", {1}, params(), "n"), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(work->stale_errors(), (std::vector<int64_t>{0, 2, 3, 4}));
  EXPECT_FALSE(work->confirm_error(failed_line(8)));
  EXPECT_TRUE(work->confirm_error(failed_line(6)));
  EXPECT_FALSE(work->confirm_error(failed_line(6)));
  EXPECT_TRUE(work->confirm_error(failed_sample));
  EXPECT_EQ(work->stale_errors(), (std::vector<int64_t>{3, 4}));
}

TEST_F(Resume, DropsLinesAndGoesOnBehindTheRest) {
  write("zero\none\ntwo\nthree\n");
  const std::string link = path_ + ".link";
  ASSERT_EQ(::symlink(path_.c_str(), link.c_str()), 0);
  {
    auto file = *RolloutFile::open(link, ExistingFile::kResume);
    ASSERT_TRUE(file->append("four").ok());
    ASSERT_TRUE(file->drop_lines({0, 2, 9}).ok());
    EXPECT_EQ(content(), "one\nthree\nfour\n");
    ASSERT_TRUE(file->append("five").ok());
    EXPECT_EQ(RolloutFile::open(path_, ExistingFile::kResume).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(content(), "one\nthree\nfour\nfive\n");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  std::remove(link.c_str());
  open(ExistingFile::kResume);
}

TEST_F(Resume, RefusesToMixTwoRuns) {
  write(line("a", 0));
  const auto work = read_work();
  const auto error_of = [&](const std::vector<int32_t>& prompt, const SamplingParams& sampling,
                            const std::string& numerics) {
    return message_of(work->samples_left("a", prompt, sampling, numerics).status());
  };
  EXPECT_THAT(error_of({2}, params(), "n"), HasSubstr("prompt_token_ids differ"));
  EXPECT_THAT(error_of({1}, params(), "m"), HasSubstr("numerics were n and are m"));
  SamplingParams other = params();
  other.temperature = 0.5f;
  EXPECT_THAT(error_of({1}, other, "n"), HasSubstr("temperature was 1.0 and is 0.5"));
}

TEST_F(Resume, NamesTheLineThatIsWrong) {
  write(line("a", 0) + "{}\n");
  EXPECT_THAT(message_of(read_work().status()), HasSubstr("line 2"));
  write(line("a", 0) + line("a", 0));
  EXPECT_THAT(message_of(read_work().status()), HasSubstr("there twice"));
  write(line("a", 0, 5) + line("b", 0, 6));
  EXPECT_THAT(message_of(read_work().status()), HasSubstr("run_seed is 6"));
}

TEST_F(Resume, AnEmptyFileIsAFreshRun) {
  write("");
  EXPECT_FALSE(read_work()->run_seed().has_value());
}

class ResumeRoutes : public Resume {
 protected:
  // A line with one row of routes, or with none but their axes.
  static std::string routed(const std::string& id, int32_t layers, RouteFormat format,
                            bool empty = false) {
    Rollout rollout;
    rollout.id = id;
    rollout.sampling = params();
    rollout.numerics = "n";
    rollout.routes = {.first = 0, .layers = layers, .top_k = 2, .dtype = DType::kInt8, .ids = {}};
    if (!empty) rollout.routes.ids.resize(size_t(layers) * 2);
    return *write_rollout_line(rollout, {.seed = 5, .routes = format}) + "\n";
  }
};

TEST_F(ResumeRoutes, LinesWithThemAndWithoutAreNotOneRun) {
  write(line("a", 0));
  EXPECT_EQ(read_work()->have_routes(), false);
  const std::string with_routes = routed("b", 1, RouteFormat::kBase64);
  write(with_routes);
  EXPECT_EQ(read_work()->have_routes(), true);
  write(line("a", 0) + with_routes);
  EXPECT_THAT(message_of(read_work().status()),
              HasSubstr("routed_experts are there, earlier lines have none"));
  write("");
  EXPECT_EQ(read_work()->have_routes(), std::nullopt);
}

TEST_F(ResumeRoutes, TheirLayersAndFormatAreThoseOfTheRun) {
  using enum RouteFormat;
  write(routed("a", 3, kBase64));
  EXPECT_EQ(read_work()->routes(), (StoredRoutes{.format = kBase64, .layers = 3}));
  write(routed("a", 3, kBase64, true));
  EXPECT_EQ(read_work()->routes(), (StoredRoutes{.format = kBase64, .layers = 3}));
  write(routed("a", 3, kList));
  EXPECT_EQ(read_work()->routes(), (StoredRoutes{.format = kList, .layers = 3}));
  write(routed("a", 3, kList, true));
  EXPECT_EQ(read_work()->routes(), (StoredRoutes{.format = kList, .layers = std::nullopt}));
  write(routed("a", 3, kList, true) + routed("b", 3, kList));
  EXPECT_EQ(read_work()->routes(), (StoredRoutes{.format = kList, .layers = 3}));
  for (const std::string& other : {routed("b", 2, kBase64), routed("b", 3, kList)}) {
    write(routed("a", 3, kBase64) + other);
    EXPECT_THAT(message_of(read_work().status()),
                HasSubstr("in another format or of other layers"));
  }
}

TEST_F(ResumeRoutes, ThoseThatWereGivenAreGivenAgain) {
  const auto given_of = [](DType dtype, int64_t id) -> GivenRoutes {
    HostTensor routes(dtype, Shape{1, 1, 2});
    EXPECT_TRUE(write_integers(std::vector<int64_t>{id, 0}, &routes).ok());
    return std::make_shared<const HostTensor>(std::move(routes));
  };
  Rollout rollout;
  rollout.id = "a";
  rollout.prompt_token_ids = {1};
  rollout.sampling = params();
  rollout.numerics = "n";
  rollout.given_routes = given_of(DType::kInt8, 3);
  write(*write_rollout_line(rollout, {.seed = 5}) + "\n" + line("b", 0));
  const auto work = read_work();
  ASSERT_TRUE(work.ok()) << work.status();
  const auto error_of = [&](const std::string& id, const GivenRoutes& given) {
    return message_of(work->samples_left(id, {1}, params(), "n", given).status());
  };
  EXPECT_EQ(error_of("a", rollout.given_routes), "");
  EXPECT_EQ(error_of("a", given_of(DType::kInt16, 3)), "");
  EXPECT_THAT(error_of("a", given_of(DType::kInt8, 4)),
              HasSubstr("the given routed_experts differ"));
  EXPECT_THAT(error_of("a", nullptr), HasSubstr("the given routed_experts differ"));
  EXPECT_THAT(error_of("b", rollout.given_routes), HasSubstr("the given routed_experts differ"));
  EXPECT_EQ(error_of("b", nullptr), "");
}

}  // namespace
}  // namespace rlgen::generation
