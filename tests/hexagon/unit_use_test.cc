// A model whose products are a matrix unit's: used where its self-test has passed and is on disk, refused in one line
// elsewhere, the same rows in any step, and given up for good at the first wrong sum.
// labels of this file: native
#include <filesystem>

#include "devices/hexagon/session.h"
#include "devices/hexagon/unit_record.h"
#include "model_on_dsp.h"
#include "must.h"

namespace llada {
namespace {

using hexagon::UnitRecord;
using State = UnitRecord::State;

class UnitUse : public ModelOnDsp {
 protected:
  void SetUp() override {
    ModelOnDsp::SetUp();
    if (IsSkipped()) return;
    std::string name = (std::filesystem::temp_directory_path() / "llada_unit_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    play_phone("vtcm=1048576");
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
    ModelOnDsp::TearDown();
  }

  HexagonOptions with(HexagonUnit unit) {
    HexagonOptions o = options();
    o.unit = unit, o.cache = folder_;
    o.warn = [this](const std::string& line) { warnings_.push_back(line); };
    return o;
  }
  // What doctor would have written, read back or changed.
  UnitRecord record(const std::optional<UnitRecord>& write = {}) const {
    const auto library = *hexagon::Library::open(standin_path());
    const auto session = *hexagon::Session::open(library, 64 << 20, 20);
    const hexagon::UnitRecords records(folder_, *library, *session);
    EXPECT_TRUE(!write || records.write(*write));
    return records.read();
  }
  std::vector<float> logits(Executor& executor, KvStore& kv, int32_t first, int32_t last, std::vector<int32_t> wanted) {
    OneStream in = inputs(first, last);
    in.wanted = std::move(wanted);
    OneResult out;
    const Status status = run_one(executor, in, kv, out);
    EXPECT_TRUE(status) << status.error().message;
    return out.logits;
  }
  std::vector<float> logits(HexagonDevice& device) {
    Executor executor(device, forwards_of(model_->graph));
    KvStore kv = store(device);
    return logits(executor, kv, 0, 9, {4, 6});
  }
  std::vector<float> logits(HexagonUnit unit) {
    const auto device = hexagon(with(unit));
    return logits(*device);
  }

  std::string folder_;
  std::vector<std::string> warnings_;
};

TEST_F(UnitUse, IsTheMatrixUnitOnlyWhereItsTestHasPassed) {
  const auto integers = logits(HexagonUnit::vector);
  EXPECT_EQ(logits(HexagonUnit::automatic), integers);
  record(UnitRecord{State::passed, {}});
  const auto by_unit = logits(HexagonUnit::automatic);
  EXPECT_NE(by_unit, integers);
  EXPECT_EQ(logits(HexagonUnit::matrix), by_unit);
  EXPECT_EQ(logits(HexagonUnit::vector), integers);
  double off = 0, all = 0;
  for (size_t i = 0; i < integers.size(); ++i)
    off += std::pow(by_unit[i] - integers[i], 2), all += std::pow(integers[i], 2);
  EXPECT_LT(std::sqrt(off / all), 0.05) << "products differ by about half a percent";
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
}

// Steps of one row, of three and of nine: a row that is computed again has its bits, so K/V that is refreshed equals
// full recomputation.
TEST_F(UnitUse, ARowDoesNotKnowItsStep) {
  record(UnitRecord{State::passed, {}});
  const auto device = hexagon(with(HexagonUnit::matrix));
  Executor executor(*device, forwards_of(model_->graph));
  KvStore kv = store(*device);
  const auto all = logits(executor, kv, 0, 9, {4, 6});
  EXPECT_EQ(logits(executor, kv, 4, 7, {0, 2}), all);
  const std::vector<float> last(all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  EXPECT_EQ(logits(executor, kv, 6, 7, {0}), last);
}

TEST_F(UnitUse, IsRefusedInOneLineThatSaysHowToTryAgain) {
  const auto refusal = [&] {
    const Status started = hexagon(with(HexagonUnit::matrix))->start();
    return started ? std::string() : started.error().message;
  };
  const std::string head = "hexagon: unit=matrix: the matrix unit is not used: ";
  const std::string doctor = "llada-study doctor --device hexagon";
  EXPECT_EQ(refusal(), head + "it has not been tested with this system and module: " + doctor + " does");
  record(UnitRecord{State::failed, "its test: sums differ"});
  EXPECT_EQ(refusal(), head + "its test: sums differ: " + doctor + " tests it again");
  EXPECT_EQ(logits(HexagonUnit::automatic), logits(HexagonUnit::vector));
  EXPECT_TRUE(warnings_.empty());
  // A phone that hung: nobody touches the unit, and both say so.
  record(UnitRecord{State::began, {}});
  const std::string began =
      "its test began and did not end, so the DSP or the phone may have hung: to try again, delete " + folder_ +
      "/hexagon-unit and run " + doctor;
  EXPECT_EQ(refusal(), head + began);
  EXPECT_EQ(logits(HexagonUnit::automatic), logits(HexagonUnit::vector));
  EXPECT_EQ(warnings_, std::vector<std::string>{"hexagon: the matrix unit is not used: " + began});
}

TEST_F(UnitUse, VotesThatAreRefusedAreALineAndTheVectorUnit) {
  const auto integers = logits(HexagonUnit::vector);
  record(UnitRecord{State::passed, {}});
  for (const auto& [phone, why] : {std::pair{"vtcm=1048576,unit=20", "its power (unsupported (20))"},
                                   {"vtcm=65536", "its memory, or the unit itself"},
                                   {"vtcm=1048576,votes=-1", "the DSP's system takes no votes"}}) {
    warnings_.clear();
    play_phone(phone);
    EXPECT_EQ(logits(HexagonUnit::matrix), integers) << phone;
    EXPECT_EQ(warnings_, std::vector<std::string>{std::string("hexagon: the matrix unit was refused: ") + why +
                                                  "; products are the vector unit's"});
  }
  EXPECT_EQ(record().state, State::passed) << "a refusal says nothing about its sums";
}

// A phone that gives the unit to one session. Devices of one model compute alike: all by integers where none has
// computed yet; else the one that does not get it says so and computes nothing.
TEST_F(UnitUse, DevicesThatShareComputeAlikeWhereOneAloneGetsTheUnit) {
  const auto integers = logits(HexagonUnit::vector);
  record(UnitRecord{State::passed, {}});
  const auto by_unit = logits(HexagonUnit::automatic);
  ASSERT_NE(by_unit, integers);
  const auto share = [](HexagonDevice& device) {
    auto other = must(device.share(1));
    return std::unique_ptr<HexagonDevice>(static_cast<HexagonDevice*>(other->release()));
  };
  play_phone("vtcm=1048576,grants=1");
  for (const bool computed : {false, true}) {
    warnings_.clear();
    const auto device = hexagon(with(HexagonUnit::automatic));
    ASSERT_TRUE(device->start());
    if (computed) {
      EXPECT_EQ(logits(*device), by_unit);
    }
    const auto other = share(*device);
    const Status started = other->start();
    if (!computed) {
      ASSERT_TRUE(started) << started.error().message;
      EXPECT_EQ(logits(*other), integers);
      EXPECT_EQ(logits(*device), integers) << "though it has the unit";
      EXPECT_EQ(warnings_, std::vector<std::string>{"hexagon: the matrix unit was refused: its memory, or the unit "
                                                    "itself; products are the vector unit's"});
      continue;
    }
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().kind, ErrorKind::invalid_input) << "no fallback takes it for a device that broke";
    EXPECT_EQ(started.error().message,
              "hexagon: the matrix unit was refused: its memory, or the unit itself; another device computes with it, "
              "and their answers would differ: needed unit=vector, or one device");
    EXPECT_EQ(logits(*device), by_unit);
  }
  play_phone("vtcm=1048576");
  const auto device = hexagon(with(HexagonUnit::automatic));
  EXPECT_EQ(logits(*device), by_unit);
  EXPECT_EQ(logits(*share(*device)), by_unit) << "a phone that gives it twice";
}

// A unit that passed its test and errs later, or is not given: one line, the step again by integers, and integers from
// then on, in the next run too.
TEST_F(UnitUse, AWrongSumEndsItsUseForGood) {
  const auto integers = logits(HexagonUnit::vector);
  for (const auto& [phone, line] :
       {std::pair{"vtcm=1048576,swaps=1", "hexagon: a sum of the matrix unit in op "},
        {"vtcm=1048576,lies=3", "hexagon: a sum of the matrix unit in op "},
        {"vtcm=1048576,locks=0", "hexagon: the matrix unit was not given to a thread; products are the vector "}}) {
    warnings_.clear();
    play_phone(phone);
    record(UnitRecord{State::passed, {}});
    const auto device = hexagon(with(HexagonUnit::matrix));
    const auto fallback = cpu_->share(1);
    Executor executor(*device, forwards_of(model_->graph),
                      {.memory = {}, .fallback = fallback->get(), .warn = [&](const std::string& said) {
                         warnings_.push_back(said);
                       }});
    KvStore kv = store(*device);
    std::vector<float> last;
    for (int pass = 0; pass < 400 && warnings_.empty(); ++pass) last = logits(executor, kv, 0, 9, {4, 6});
    EXPECT_EQ(last, integers) << "the step that met it";
    EXPECT_EQ(logits(executor, kv, 0, 9, {4, 6}), integers);
    ASSERT_EQ(warnings_.size(), 1u) << phone;
    EXPECT_TRUE(warnings_[0].starts_with(line)) << warnings_[0];
    EXPECT_TRUE(warnings_[0].ends_with("products are the vector unit's from now on")) << warnings_[0];
    EXPECT_FALSE(executor.fell_back());
    EXPECT_EQ(device->counters().sessions_opened, 1);
    EXPECT_EQ(record().state, State::failed);
  }
}

// It hangs, or its process ends: the host goes on, and the unit is not asked for again before its next test.
TEST_F(UnitUse, ABatchThatDoesNotEndIsTheLastOne) {
  const auto integers = logits(HexagonUnit::vector);
  record(UnitRecord{State::passed, {}});
  play_phone("vtcm=1048576,hangs=1");
  HexagonOptions quick = with(HexagonUnit::matrix);
  quick.deadline_s = 0.5;
  const auto device = hexagon(quick);
  const auto fallback = must(device->on_host(1));
  Executor executor(
      *device, forwards_of(model_->graph),
      {.memory = {}, .fallback = fallback->get(), .warn = [&](const std::string& said) { warnings_.push_back(said); }});
  KvStore kv = store(*device);
  EXPECT_EQ(logits(executor, kv, 0, 9, {4, 6}), integers);
  EXPECT_TRUE(executor.fell_back());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("no answer within"), std::string::npos) << warnings_[0];
  play_phone("vtcm=1048576");
  EXPECT_EQ(record().why, "a batch with the matrix unit did not end");
}

TEST_F(UnitUse, ARecordIsOfOneSystemAndModuleAndDamageIsNone) {
  record(UnitRecord{State::passed, {}});
  const std::string file = folder_ + "/hexagon-unit";
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  ASSERT_TRUE(text.ends_with("\npassed\n")) << text;
  EXPECT_EQ(record().state, State::passed);
  for (const std::string& other :
       {"x" + text, text.substr(0, text.size() - 1), text.substr(1), text + "\n", std::string("passed\n"),
        std::string(), text.substr(0, text.size() - 7) + "maybe\n", std::string(4000, 'x')}) {
    std::ofstream(file, std::ios::trunc) << other;
    EXPECT_EQ(record().state, State::none) << other.substr(0, 200);
  }
}

}  // namespace
}  // namespace llada
