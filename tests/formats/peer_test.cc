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
  EXPECT_EQ(std::tuple(c.family, c.name, c.layers, c.width, c.heads, c.kv_heads, c.head_dim, c.ffn_width, c.vocab),
            std::tuple(&kLladaFamily, "tiny-llada", 6, 256, 8, 8, 32, 768, 1024));
  EXPECT_EQ(std::tuple(c.context, c.rms_eps, c.rope_theta, c.rope_pairing, c.shift_logits, c.bos_id, c.eos_id),
            std::tuple(256, 1e-5f, 10000.0f, RopePairing::adjacent, false, 1000, 1001));
  EXPECT_EQ(std::tuple(c.pad_id, c.eot_id, c.mask_id), std::tuple(1001, 1004, 1005));
  ASSERT_TRUE(model.tokenizer());
  const TokenizerSpec& spec = *model.tokenizer();
  EXPECT_EQ(std::tuple(spec.tokens.size(), spec.merges.size(), spec.merges[0], spec.tokens[1005], spec.kinds[1005]),
            std::tuple(1024u, 744u, "e r", "<|mdm_mask|>", TokenKind::control));
  EXPECT_EQ(std::tuple(spec.kinds[1023], spec.pre, spec.add_bos), std::tuple(TokenKind::unused, "bailingmoe", false));
  EXPECT_TRUE(spec.chat_template.starts_with("{% for m in messages %}"));
}

TEST(Peer, ConfigAgreesWithTheFolders) {
  const ModelConfig a = opened(kBf16).config(), b = opened(kFolder).config();
  expect_same_shape(a, b);
  EXPECT_EQ(std::tuple(a.context, a.rms_eps, a.rope_theta, a.mask_id, a.bos_id, a.eos_id, a.eot_id),
            std::tuple(b.context, b.rms_eps, b.rope_theta, b.mask_id, b.bos_id, b.eos_id, b.eot_id));
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
