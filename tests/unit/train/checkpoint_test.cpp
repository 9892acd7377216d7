#include "train/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>

#include "contract/weights.h"
#include "model/weights.h"
#include "train/optimizer_files.h"
#include "unit/train/sample_model.h"
#include "weights/staged.h"

namespace tritonforge::train {
namespace {

using testing::HasSubstr;

struct Source {  // a model folder with a tokenizer file beside it
  Source() : folder("train_test") {
    model::save_model(sample_model(), folder.path() / "model");
    write_file_atomic(folder.path() / "model" / "tokenizer.json", "{}");
  }
  TrainConfig config(const char* dtype = "float32") const {
    TrainConfig config = sample_train_config();
    config.dtype = dtype;
    config.model = folder.path() / "model";
    config.checkpoint = folder.path() / "checkpoints";
    return config;
  }
  TemporaryFolder folder;
};

template <typename Act>
std::string error_of(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void run_steps(Trainer& trainer, int64_t until) {
  while (trainer.state().step < until) {
    const int64_t step = trainer.state().step;
    trainer.train_step(step % 2 ? StepKind::kRl : StepKind::kSft,
                       sample_sequences(5, 1000 + static_cast<uint64_t>(step)));
  }
}

TEST(Checkpoint, ARestartAtAnyStepGivesTheSameBits) {
  const Source source;
  for (const char* dtype : {"float32", "bfloat16"}) {
    TrainConfig config = source.config(dtype);
    config.optimizer_steps_per_batch = 2;
    config.schedule = Schedule::kCosine;
    config.total_steps = 6;
    config.min_lr = 1e-3;
    auto straight = make_trainer(config);
    run_steps(*straight, 5);
    for (const int64_t stop : {1, 3}) {
      CheckpointStore store(source.folder.path() / fmt::format("{}-{}", dtype, stop), 2);
      auto first = make_trainer(config);
      run_steps(*first, stop);
      first->published(41);
      store.save(*first, {{"lease-1", stop, true}});
      first.reset();
      auto second = resume_trainer(config, store.latest());
      EXPECT_EQ(second->state().step, stop);
      EXPECT_THAT(second->state().weight_versions, testing::ElementsAre(41));
      EXPECT_EQ(second->state().last.step, stop);
      EXPECT_EQ(checkpoint_leases(store.latest())[0].lease_id, "lease-1");
      run_steps(*second, 5);
      EXPECT_EQ(model::weight_checksums(second->model()), model::weight_checksums(straight->model()))
          << dtype << " stopped at " << stop;
      const auto a = second->optimizer().state(), b = straight->optimizer().state();
      for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i].values, b[i].values)) << a[i].name;
    }
  }
}

TEST(Checkpoint, StatesOfTheCpuAndFp32ReadEachOthers) {
  const Source source;
  for (const auto& [before, after] : {std::pair{OptimizerState::kFp32, OptimizerState::kCpu},
                                      std::pair{OptimizerState::kCpu, OptimizerState::kFp32}}) {
    TrainConfig config = source.config();
    config.optimizer_state = before;
    auto straight = make_trainer(config);
    run_steps(*straight, 2);
    CheckpointStore store(source.folder.path() / std::string(name_of(before)), 1);
    store.save(*straight, {});
    config.optimizer_state = after;
    auto resumed = resume_trainer(config, store.latest());
    run_steps(*straight, 4);
    run_steps(*resumed, 4);
    EXPECT_EQ(model::weight_checksums(resumed->model()), model::weight_checksums(straight->model()));
    const StatePieces a = resumed->optimizer().state(), b = straight->optimizer().state();
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i].values, b[i].values)) << a[i].name;
  }
}

TEST(Checkpoint, IsAModelFolderOfItsOwn) {
  const Source source;
  CheckpointStore store(source.config().checkpoint, 2);
  auto trainer = make_trainer(source.config());
  run_steps(*trainer, 1);
  const fs::path path = store.save(*trainer, {});
  EXPECT_EQ(path.filename(), "step-00000001");
  EXPECT_EQ(read_file(path / "tokenizer.json"), "{}");
  EXPECT_THAT(read_file(path / "config.yaml"), HasSubstr("lm_head_chunk: 16"));
  EXPECT_EQ(model::weight_checksums(model::load_model(path, at::kFloat, at::kCPU)),
            model::weight_checksums(trainer->model()));
  store.save(*trainer, {});  // the same step again replaces it
  EXPECT_EQ(store.latest(), path);
  // An engine that runs takes it, too: the optimizer's tensors beside the weights are none of its model's.
  const model::Model served = sample_model();
  const weights::StagedWeights staged = weights::stage_weights(model::Parts(served), path, {});
  weights::install(staged, at::kFloat);
  EXPECT_EQ(model::weight_checksums(served), model::weight_checksums(trainer->model()));
}

TEST(Checkpoint, ACopyIsWrittenWhileTheTrainerGoesOn) {
  const Source source;
  CheckpointStore store(source.config().checkpoint, 3);
  auto trainer = make_trainer(source.config());
  run_steps(*trainer, 1);
  const std::string at_once = read_file(store.save(*trainer, {}) / "optimizer.safetensors");
  std::promise<void> told;
  store.save_behind(*trainer, {}, [&] { told.set_value(); });
  run_steps(*trainer, 3);
  told.get_future().wait();
  const auto path = store.collect(true);
  ASSERT_TRUE(path);
  EXPECT_EQ(path->filename(), "step-00000001");
  EXPECT_EQ(read_file(*path / "optimizer.safetensors"), at_once);
  EXPECT_FALSE(store.collect(true)) << "nothing is under way";
  store.save_behind(*trainer, {}, [] {});  // into the memory of the first
  EXPECT_EQ(store.collect(true)->filename(), "step-00000003");
  EXPECT_EQ(resume_trainer(source.config(), store.latest())->state().step, 3);
}

TEST(Checkpoint, ADamagedTensorIsNamed) {
  const Source source;
  CheckpointStore store(source.config().checkpoint, 2);
  auto trainer = make_trainer(source.config());
  run_steps(*trainer, 1);
  const fs::path path = store.save(*trainer, {});
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const std::string whole = read_file(path / name);
    std::string damaged = whole;
    damaged.back() ^= 1;
    write_file_atomic(path / name, damaged);
    EXPECT_THAT(error_of([&] { resume_trainer(source.config(), path); }),
                testing::AllOf(HasSubstr("has the checksum"), HasSubstr("the file is damaged")))
        << name;
    write_file_atomic(path / name, whole);
  }
  EXPECT_EQ(resume_trainer(source.config(), path)->state().step, 1);
}

TEST(Checkpoint, ATensorWithoutAChecksumIsNotTrusted) {
  const Source source;
  CheckpointStore store(source.config().checkpoint, 2);
  auto trainer = make_trainer(source.config());
  run_steps(*trainer, 1);
  const fs::path path = store.save(*trainer, {});
  const Json sums = parse_json(read_file(path / kChecksumsFile), kChecksumsFile);
  for (const auto& [name, sum] : sums.items()) {
    Json others = sums;
    others.erase(name);
    write_file_atomic(path / kChecksumsFile, others.dump());
    EXPECT_THAT(error_of([&] { resume_trainer(source.config(), path); }),
                testing::AllOf(HasSubstr("'" + name + "'"), HasSubstr("none was written: the file is damaged")));
  }
}

TEST(Checkpoint, OldOnesAreRemovedAndUnfinishedOnesToo) {
  const Source source;
  const fs::path folder = source.config().checkpoint;
  fs::create_directories(folder / "step-00000009.tmp-123");
  {
    CheckpointStore store(folder, 2);
    EXPECT_FALSE(fs::exists(folder / "step-00000009.tmp-123"));
    EXPECT_TRUE(store.latest().empty());
    auto trainer = make_trainer(source.config());
    for (int64_t step = 1; step <= 4; ++step) {
      run_steps(*trainer, step);
      store.save(*trainer, {});
    }
    EXPECT_THAT(error_of([&] { CheckpointStore other(folder, 2); }), HasSubstr("in use by another trainer (pid"));
  }
  const auto names = [&] {
    std::vector<std::string> left;
    for (const auto& entry : fs::directory_iterator(folder)) left.push_back(entry.path().filename());
    return left;
  };
  EXPECT_THAT(names(), testing::UnorderedElementsAre(".lock", "latest", "step-00000003", "step-00000004"));
  // Killed between the folder and its being the latest: the step comes again, and is no old one that is kept.
  fs::create_directories(folder / "step-00000005");
  write_file_atomic(folder / "step-00000005/trainer.json", "{}");
  EXPECT_EQ(CheckpointStore(folder, 2).latest().filename(), "step-00000004");
  EXPECT_THAT(names(), testing::UnorderedElementsAre(".lock", "latest", "step-00000003", "step-00000004"));
  // Without the file nothing trained is lost, and what is no whole checkpoint is not taken for the newest.
  fs::remove(folder / "latest");
  fs::create_directories(folder / "step-00000006");
  EXPECT_EQ(CheckpointStore(folder, 2).latest().filename(), "step-00000004");
  EXPECT_EQ(read_file(folder / "latest"), "step-00000004\n");
  EXPECT_THAT(names(), testing::UnorderedElementsAre(".lock", "latest", "step-00000003", "step-00000004"));
}

// A copy that somebody keeps beside them, or what /save was told to write there.
TEST(Checkpoint, WhatOthersPutBesideThemIsLeftAlone) {
  const Source source;
  const fs::path folder = source.config().checkpoint;
  const std::vector<std::string> kept{"step-00000001-best", "step-of-friday"};
  for (const std::string& name : kept) {
    fs::create_directories(folder / name);
    write_file_atomic(folder / name / "trainer.json", "{}");
  }
  {
    CheckpointStore store(folder, 1);
    EXPECT_EQ(store.latest(), "");
    auto trainer = make_trainer(source.config());
    for (int64_t step = 1; step <= 2; ++step) {
      run_steps(*trainer, step);
      store.save(*trainer, {});
    }
  }
  fs::remove(folder / "latest");
  EXPECT_EQ(CheckpointStore(folder, 1).latest(), folder / "step-00000002");
  EXPECT_FALSE(fs::exists(folder / "step-00000001"));
  for (const std::string& name : kept) EXPECT_TRUE(fs::exists(folder / name / "trainer.json")) << name;
}

TEST(Checkpoint, AFolderThatCannotBeUsedIsNotTaken) {
  const TemporaryFolder folder("checkpoint_test");
  write_file_atomic(folder.path() / "latest", "step-00000001\n");
  for (int i = 0; i < 2; ++i) {  // the second would find it in use by itself
    EXPECT_THAT(
        error_of([&] { CheckpointStore store(folder.path(), 2); }),
        HasSubstr("latest names " + (folder.path() / "step-00000001").string() + ", which holds no checkpoint"));
  }
}

TEST(Checkpoint, AFullDiskLeavesTheOldOneAndSaysSo) {
  const Source source;
  CheckpointStore store(source.config().checkpoint, 2);
  auto trainer = make_trainer(source.config());
  run_steps(*trainer, 1);
  const fs::path good = store.save(*trainer, {});
  run_steps(*trainer, 2);
  // A limit on the size of files stands in for the disk's end: writes fail in the same way (EFBIG, not ENOSPC).
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{20000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string said = error_of([&] { store.save(*trainer, {}); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(said, testing::AllOf(HasSubstr("cannot write"), HasSubstr("File too large")));
  EXPECT_EQ(store.latest(), good);
  EXPECT_EQ(resume_trainer(source.config(), store.latest())->state().step, 1);
  for (const auto& entry : fs::directory_iterator(source.config().checkpoint)) {
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr(".tmp-")));
  }
  EXPECT_EQ(store.save(*trainer, {}).filename(), "step-00000002");  // and with room it works
}

TEST(Checkpoint, WhatIsWrongIsNamed) {
  const Source source;
  const fs::path folder = source.config().checkpoint;
  CheckpointStore store(folder, 2);
  auto trainer = make_trainer(source.config());
  run_steps(*trainer, 1);
  const fs::path path = store.save(*trainer, {});
  EXPECT_THAT(error_of([&] { resume_trainer(source.config("bfloat16"), path); }),
              HasSubstr("was it saved with another dtype?"));
  const std::string state = read_file(path / "trainer.json");
  Json later = parse_json(state, "trainer.json");
  later["format"] = later["format"].get<int64_t>() + 1;
  write_file_atomic(path / "trainer.json", later.dump());
  EXPECT_THAT(error_of([&] { resume_trainer(source.config(), path); }), HasSubstr("trainer.json: format "));
  write_file_atomic(path / "trainer.json", state.substr(0, state.size() / 2));
  EXPECT_THAT(error_of([&] { resume_trainer(source.config(), path); }), HasSubstr("trainer.json"));
  write_file_atomic(path / "trainer.json", state);
  fs::resize_file(path / "optimizer.safetensors", fs::file_size(path / "optimizer.safetensors") / 2);
  EXPECT_THAT(error_of([&] { resume_trainer(source.config(), path); }), HasSubstr("optimizer.safetensors"));
  write_file_atomic(folder / "latest", "step-00000077\n");
  EXPECT_THAT(error_of([&] { store.latest(); }), HasSubstr("which holds no checkpoint"));
}

TEST(Checkpoint, AMomentOfAnotherShapeIsNotSpreadOverAll) {
  const Source source;
  CheckpointStore store(source.config().checkpoint, 2);
  auto trainer = make_trainer(source.config());
  run_steps(*trainer, 1);
  const fs::path path = store.save(*trainer, {});
  StatePieces moments = trainer->optimizer().state();
  moments[0].values = at::zeros({1}, moments[0].values.options());  // what copy_ would broadcast
  moments[0].shape = {1};
  write_optimizer(moments, path, 0, 1);
  EXPECT_THAT(error_of([&] { resume_trainer(source.config(), path); }),
              testing::AllOf(HasSubstr(moments[0].name), HasSubstr("is of [1], expected")));
}

// It has the size of a model, and its trainer's successor has another number.
TEST(Checkpoint, WhatAKilledTrainerLeftOfAnExportGoesWithTheNext) {
  const Source source;
  const fs::path models = source.folder.path() / "models";
  const pid_t killed = ::fork();
  if (killed == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(killed, nullptr, 0), killed);
  fs::create_directories(models / fmt::format("rl.tmp-{}", killed));
  export_model(model_of(*make_trainer(source.config())), source.config().model, models / "rl");
  EXPECT_EQ(names_in(models, [](const fs::path&) { return true; }), std::vector<std::string>{"rl"});
}

TEST(Checkpoint, AnExportReplacesWhatIsThere) {
  const Source source;
  const fs::path folder = source.folder.path() / "export";
  auto trainer = make_trainer(source.config());
  export_model(model_of(*trainer), source.config().model, folder);
  run_steps(*trainer, 1);
  const auto sums = export_model(model_of(*trainer), source.config().model, folder);
  EXPECT_EQ(sums, model::weight_checksums(trainer->model()));
  EXPECT_EQ(model::weight_checksums(model::load_model(folder, at::kFloat, at::kCPU)), sums);
  EXPECT_TRUE(fs::exists(folder / "tokenizer.json"));
  EXPECT_EQ(export_model(model_of(*trainer), source.config().model, folder / ""), sums);  // with a slash behind it
  write_checkpoint(source.folder.path() / "saved" / "", contents_of(*trainer, {}));
  EXPECT_EQ(resume_trainer(source.config(), source.folder.path() / "saved")->state().step, 1);
  const PublishedWeights exported = exported_weights(folder, 7);
  EXPECT_EQ(exported.version, 7);
  EXPECT_EQ(exported.checksums, sums);
}

}  // namespace
}  // namespace tritonforge::train
