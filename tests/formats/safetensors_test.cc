// safetensors headers: what is read, and what is refused with which words.
#include "formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/model_fixture.h"
#include "formats/tensor_names.h"
#include "json/parse.h"

namespace llada {
namespace {

using testing::HasSubstr;

// A header text with its length in front and `data` zero bytes behind.
std::string file(std::string header, size_t data, bool pad = true) {
  if (pad) header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i));
  return out + header + std::string(data, '\0');
}

Result<SafetensorsFile> parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "x.safetensors");
}

std::string safetensors_outcome(const std::string& bytes) { return testing_models::outcome(parse(bytes)); }

TEST(Safetensors, TensorsInTheOrderOfTheirData) {
  const std::string bytes = file(
      R"({"__metadata__":{"a":"b"},"two":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},)"
      R"("one":{"data_offsets":[0,4],"shape":[2],"dtype":"BF16"},"step":{"dtype":"I64","shape":[],"data_offsets":[28,36]}})",
      36);
  const auto read = parse(bytes);
  ASSERT_TRUE(read) << read.error().message;
  const auto& tensors = read->tensors;
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "one");
  EXPECT_EQ(tensors[0].view.type, DType::BF16);
  EXPECT_EQ(tensors[1].name, "two");
  EXPECT_EQ(tensors[1].view.shape.dims[0], 3);  // storage order
  EXPECT_EQ(tensors[1].view.shape.dims[1], 2);
  EXPECT_EQ(tensors[1].view.data, std::as_bytes(std::span(bytes)).data() + bytes.size() - 32);
  EXPECT_EQ(tensors[1].raw, "");
  EXPECT_EQ(tensors[2].name, "step");
  EXPECT_EQ(tensors[2].raw, "I64");
  EXPECT_EQ(tensors[2].bytes(), 8u);
}

// Headers of every length, as writers without padding leave them.
TEST(Safetensors, DataBeginAtAnyByte) {
  for (size_t spaces = 0; spaces < 8; ++spaces) {
    const std::string bytes = file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                   R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[4,10]}})" +
                                       std::string(spaces, ' '),
                                   10, false);
    const auto read = parse(bytes);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->tensors[0].offset, bytes.size() - 10);
    EXPECT_EQ(read->tensors[1].view.data, std::as_bytes(std::span(bytes)).data() + bytes.size() - 6);
  }
}

TEST(Safetensors, TensorsWithoutValuesArePassedOver) {
  const auto read = parse(file(
      R"({"none":{"dtype":"F32","shape":[0,64],"data_offsets":[8,8]},"two":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
      8));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->tensors.size(), 1u);
  EXPECT_EQ(read->tensors[0].name, "two");
}

struct SafetensorsRefusal {
  const char* name;
  std::string bytes;
  const char* words;
};

std::string one(const std::string& fields, size_t data = 16) { return file(R"({"t":{)" + fields + "}}", data); }

const SafetensorsRefusal kSafetensorsRefusals[] = {
    {"Empty", "", "is empty, a safetensors file needed"},
    {"Short", "1234", "too short"},
    {"HeaderCut", file(R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 0).substr(0, 40),
     "header length 56, the file has 32 bytes behind it: it is cut"},
    {"HeaderBeyondTheFile", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10), "header length 9223372036854775807"},
    {"HeaderNotAnObject", file("[1]", 0), "not a JSON object"},
    {"BrokenJson", file(R"({"t":{"dtype")", 0), "not valid JSON"},
    {"TrailingText", file("{} x", 0), "not valid JSON"},
    {"Deep", file(R"({"t":)" + std::string(50, '['), 0), "nested more than 8 deep"},
    {"LongString", file("{\"" + std::string(200000, 'x') + "\":1}", 0), "runs on for more than 131072 bytes"},
    {"ManyFields", file(R"({"t":{"dtype":{"x":1}}})", 0), "found an object, needed a value"},
    {"NoShape", one(R"("dtype":"F32","data_offsets":[0,16])"), "dtype, shape and two data_offsets needed"},
    {"OneOffset", one(R"("dtype":"F32","shape":[4],"data_offsets":[0])"), "two data_offsets"},
    {"UnknownType", one(R"("dtype":"F4","shape":[16],"data_offsets":[0,16])"), "dtype F4, F32, F16 or BF16 needed"},
    {"OffsetsBeyond", one(R"("dtype":"F32","shape":[8],"data_offsets":[0,32])"),
     "the file has 16 bytes of data: it is cut"},
    {"OffsetsBackwards", one(R"("dtype":"F32","shape":[4],"data_offsets":[16,0])"), "data_offsets 16 to 0"},
    {"NegativeOffset", one(R"("dtype":"F32","shape":[4],"data_offsets":[-16,0])"), "negative"},
    {"SizeMismatch", one(R"("dtype":"F32","shape":[3],"data_offsets":[0,16])"), "16 bytes of data, 12 needed"},
    {"ZeroDimension", one(R"("dtype":"F32","shape":[0,4],"data_offsets":[0,16])"), "dimension 0 is 0"},
    {"OverflowingShape", one(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16])"), "dimension 0"},
    {"HugeNumber", one(R"("dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,16])"),
     "found a value of another type, or the field twice"},
    {"Rank5", one(R"("dtype":"F32","shape":[1,1,1,1,4],"data_offsets":[0,16])"), "more than 4 dimensions"},
    {"FloatDimension", one(R"("dtype":"F32","shape":[4.0],"data_offsets":[0,16])"),
     "found a value of another type, or the field twice"},
    {"ExtraField", one(R"("dtype":"F32","shape":[4],"data_offsets":[0,16],"x":"y")"),
     "field x: found a value of another type"},
    {"TwoTypes", one(R"("dtype":"F32","dtype":"F16","shape":[4],"data_offsets":[0,16])"),
     "found a value of another type, or the field twice"},
    {"Duplicate",
     file(
         R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
         8),
     "tensor t appears twice"},
    {"Overlap",
     file(
         R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
         8),
     "tensors a and b overlap"},
    {"NewlineInName", file("{\"a\\nb\":{\"dtype\":\"F32\"}}", 0), "a\\x0ab"},
    {"BrokenUtf8", file("{\"a\xff\":1}", 0), "not valid JSON"},
};

class SafetensorsRefuses : public testing::TestWithParam<SafetensorsRefusal> {};

TEST_P(SafetensorsRefuses, WithOneClearLine) {
  const std::string message = safetensors_outcome(GetParam().bytes);
  EXPECT_THAT(message, HasSubstr(GetParam().words));
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_THAT(message, testing::StartsWith("x.safetensors: "));
}

INSTANTIATE_TEST_SUITE_P(Files, SafetensorsRefuses, testing::ValuesIn(kSafetensorsRefusals),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(TensorNames, BothFamilies) {
  EXPECT_EQ(canonical_name("model.transformer.ff_out.weight"), "output.weight");
  EXPECT_EQ(canonical_name("model.transformer.blocks.31.ff_out.weight"), "blk.31.ffn_down.weight");
  EXPECT_EQ(canonical_name("model.transformer.blocks.0.ff_proj.weight"), "blk.0.ffn_gate.weight");
  EXPECT_EQ(canonical_name("model.layers.7.self_attn.o_proj.weight"), "blk.7.attn_output.weight");
  EXPECT_EQ(canonical_name("model.layers.7.mlp.gate.weight"), "blk.7.ffn_gate_inp.weight");
  EXPECT_EQ(canonical_name("model.layers.7.mlp.experts.63.down_proj.weight"), "blk.7.ffn_down_exps.63.weight");
  EXPECT_EQ(canonical_name("lm_head.weight"), "output.weight");
  for (const char* unknown :
       {"", "model.layers..x", "model.layers.01.input_layernorm.weight", "model.layers.-1.input_layernorm.weight",
        "model.layers.999999.input_layernorm.weight", "model.layers.1", "model.layers.1.mlp.experts.weight",
        "model.transformer.blocks.0.input_layernorm.weight", "lm_head.bias"})
    EXPECT_EQ(canonical_name(unknown), std::nullopt) << unknown;
  for (const char* buffer : {"model.layers.0.self_attn.rotary_emb.inv_freq", "rotary.inv_freq", "model.position_ids",
                             "model.layers.0.attn.masked_bias", "h.0.attn.bias", "rotary_emb.cos_cached"})
    EXPECT_TRUE(is_buffer(buffer) && !canonical_name(buffer)) << buffer;
  for (const char* other : {"", "weight", "model.layers.0.self_attn.q_proj.bias", "model.norm.bias", "lora_A.weight"})
    EXPECT_FALSE(is_buffer(other)) << other;
}

TEST(Json, Limits) {
  EXPECT_TRUE(parse_json_object(R"({"a":[1,2,{"b":null}],"c":"]]]]{{{{"})", "x"));
  EXPECT_THAT(parse_json_object(R"({"a":1,"b":{"c":1,"c":2}})", "x").error().message,
              HasSubstr("field \"c\" appears twice"));
  EXPECT_TRUE(parse_json_object(R"({"a":{"c":1},"b":{"c":1}})", "x"));
  std::string many = "{\"a\":[0";
  for (int i = 0; i < 6000; ++i) many += ",0";
  EXPECT_THAT(parse_json_object(many + "]}", "x").error().message, HasSubstr("more than 5000 values"));
}

}  // namespace
}  // namespace llada
