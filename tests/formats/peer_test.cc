// Against files that other software wrote: tests/data/peer holds the tiny model in llama.cpp's dialect,
// written by llama.cpp's own Python library from the same weights as models/tiny-llada (safetensors).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "formats/convert.h"
#include "formats/gguf.h"
#include "formats/model_fixture.h"
#include "formats/same_shape.h"
#include "formats/temp_folder.h"

namespace llada {
namespace {

using testing_models::opened;

const std::string kFolder = LLADA_SOURCE_DIR "/models/tiny-llada";
const std::string kBf16 = LLADA_SOURCE_DIR "/tests/data/peer/tiny-llada-bf16.gguf";
const std::string kQ8 = LLADA_SOURCE_DIR "/tests/data/peer/tiny-llada-q8_0.gguf";

TEST(Peer, MetadataIsRead) {
  const ModelFile model = opened(kBf16);
  const ModelConfig& c = model.config();
  EXPECT_EQ(c.family, &kLladaFamily);
  EXPECT_EQ(c.name, "tiny-llada");
  EXPECT_EQ(c.layers, 6);
  EXPECT_EQ(c.width, 256);
  EXPECT_EQ(c.heads, 8);
  EXPECT_EQ(c.kv_heads, 8);
  EXPECT_EQ(c.head_dim, 32);
  EXPECT_EQ(c.ffn_width, 768);
  EXPECT_EQ(c.vocab, 1024);
  EXPECT_EQ(c.context, 256);
  EXPECT_EQ(c.rms_eps, 1e-5f);
  EXPECT_EQ(c.rope_theta, 10000.0f);
  EXPECT_EQ(c.rope_pairing, RopePairing::adjacent);
  EXPECT_FALSE(c.shift_logits);
  EXPECT_EQ(c.bos_id, 1000);
  EXPECT_EQ(c.eos_id, 1001);
  EXPECT_EQ(c.pad_id, 1001);
  EXPECT_EQ(c.eot_id, 1004);
  EXPECT_EQ(c.mask_id, 1005);
  ASSERT_TRUE(model.tokenizer());
  const TokenizerSpec& spec = *model.tokenizer();
  EXPECT_EQ(spec.tokens.size(), 1024u);
  EXPECT_EQ(spec.merges.size(), 744u);
  EXPECT_EQ(spec.merges[0], "e r");
  EXPECT_EQ(spec.tokens[1005], "<|mdm_mask|>");
  EXPECT_EQ(spec.kinds[1005], TokenKind::control);
  EXPECT_EQ(spec.kinds[1023], TokenKind::unused);
  EXPECT_EQ(spec.pre, "bailingmoe");
  EXPECT_FALSE(spec.add_bos);
  EXPECT_TRUE(spec.chat_template.starts_with("{% for m in messages %}"));
}

TEST(Peer, ConfigAgreesWithTheFolders) {
  const ModelConfig a = opened(kBf16).config(), b = opened(kFolder).config();
  expect_same_shape(a, b);
  EXPECT_EQ(a.context, b.context);
  EXPECT_EQ(a.rms_eps, b.rms_eps);
  EXPECT_EQ(a.rope_theta, b.rope_theta);
  EXPECT_EQ(a.mask_id, b.mask_id);
  EXPECT_EQ(a.bos_id, b.bos_id);
  EXPECT_EQ(a.eos_id, b.eos_id);
  EXPECT_EQ(a.eot_id, b.eot_id);
  EXPECT_EQ(b.rope_pairing, RopePairing::half_split);
}

// bf16 holds the folder's weights unrounded: equal bytes once q and k rows are put back in Hugging Face's
// order.
TEST(Peer, Bf16TensorsEqualTheFoldersAfterUnpermutation) {
  const ModelFile peer = opened(kBf16), folder = opened(kFolder);
  ASSERT_EQ(peer.tensors().size(), folder.tensors().size());
  const int64_t head = 32;
  for (const ModelTensor& tensor : folder.tensors()) {
    const TensorView* other = peer.find(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    if (tensor.view.shape.rank == 1) continue;  // widened to f32 there; compared below through the conversion
    ASSERT_EQ(other->type, DType::BF16);
    const bool permuted =
        tensor.name.find("attn_q") != std::string::npos || tensor.name.find("attn_k") != std::string::npos;
    for (int64_t row = 0; row < tensor.view.shape.rows(); ++row) {
      const int64_t within = row % head;
      const int64_t there =
          permuted ? row - within + (within < head / 2 ? 2 * within : 2 * (within - head / 2) + 1) : row;
      ASSERT_EQ(0, std::memcmp(tensor.view.row(row), other->row(there), static_cast<size_t>(other->row_stride())))
          << tensor.name << " row " << row;
    }
  }
}

struct Conversion {
  DType type;
  std::string peer;
};

class PeerConversion : public testing::TestWithParam<Conversion> {};

// Our conversion of the folder against the peer's: every key that it has with the same type and bytes, every
// tensor with the same name, type, shape and bytes.
TEST_P(PeerConversion, EqualsThePeersFile) {
  const TempFolder out;
  const ModelFile folder = opened(kFolder), peer_model = opened(GetParam().peer);
  const auto status =
      convert_to_gguf(folder, &*peer_model.tokenizer(), out / "m.gguf", {.type = GetParam().type, .progress = {}});
  ASSERT_TRUE(status) << status.error().message;
  const auto our_bytes = MappedFile::open(out / "m.gguf"), peer_bytes = MappedFile::open(GetParam().peer);
  ASSERT_TRUE(our_bytes && peer_bytes);
  const auto ours = GgufFile::parse(our_bytes->bytes(), "ours"), peer = GgufFile::parse(peer_bytes->bytes(), "peer");
  ASSERT_TRUE(ours) << ours.error().message;
  ASSERT_TRUE(peer) << peer.error().message;
  for (const GgufValue& value : peer->values()) {
    const GgufValue* mine = ours->find(value.key);
    ASSERT_NE(mine, nullptr) << value.key;
    EXPECT_EQ(mine->type, value.type) << value.key;
    EXPECT_EQ(mine->element, value.element) << value.key;
    ASSERT_EQ(mine->data.size(), value.data.size()) << value.key;
    EXPECT_EQ(0, std::memcmp(mine->data.data(), value.data.data(), value.data.size())) << value.key;
  }
  ASSERT_EQ(ours->tensors().size(), peer->tensors().size());
  for (const GgufTensor& tensor : peer->tensors()) {
    const auto mine = std::ranges::find(ours->tensors(), tensor.name, &GgufTensor::name);
    ASSERT_NE(mine, ours->tensors().end()) << tensor.name;
    EXPECT_EQ(mine->view.type, tensor.view.type) << tensor.name;
    EXPECT_EQ(mine->view.shape, tensor.view.shape) << tensor.name;
    EXPECT_EQ(mine->view.shape.rank, tensor.view.shape.rank) << tensor.name;
    EXPECT_EQ(0, std::memcmp(mine->view.data, tensor.view.data, static_cast<size_t>(tensor.view.bytes())))
        << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PeerConversion,
                         testing::Values(Conversion{DType::BF16, kBf16}, Conversion{DType::Q8_0, kQ8}),
                         [](const auto& test) { return std::string(traits(test.param.type).name); });

// From one GGUF to another: the rows are permuted already and must not be permuted again.
TEST(Peer, ReconvertingKeepsThePermutation) {
  const TempFolder out;
  const ModelFile peer = opened(kBf16), q8 = opened(kQ8);
  ASSERT_TRUE(convert_to_gguf(peer, nullptr, out / "m.gguf", {.type = DType::Q8_0, .progress = {}}));
  const ModelFile ours = opened(out / "m.gguf");
  EXPECT_EQ(ours.config().rope_pairing, RopePairing::adjacent);
  for (const ModelTensor& tensor : q8.tensors())
    EXPECT_EQ(0, std::memcmp(ours.find(tensor.name)->data, tensor.view.data, static_cast<size_t>(tensor.view.bytes())))
        << tensor.name;
  EXPECT_EQ(ours.tokenizer()->tokens, q8.tokenizer()->tokens);
}

}  // namespace
}  // namespace llada
