// The protocol between the host and the DSP: the methods of the skel, the batch of ops that its run method takes, the
// layouts of weights, error codes. Plain C, included by both sides; all structs are made of fixed-width fields without
// padding, little-endian. Words: buffer = memory that both sides see, shared by file descriptor; the host chooses a
// number from 0 to WIRE_BUFFERS - 1 under which the DSP knows it. ref = a buffer's number and a byte offset in it.
// stored = a tensor's bytes as in the model file. tile = 32 outputs of a matrix in the order in which the vector unit
// reads them (below). Deliberately absent: pointers, and anything that only one side needs to know.
//
// The DSP trusts nothing. It copies a batch with its ops, ranges, index lists and spans before it looks at them, so
// that later changes of the shared memory have no effect. Every ref is checked against its buffer's size before the
// first op runs. It writes nothing but the arena values named in `out` (and `in` of the ops that work in place), K/V,
// the scratch and the outputs. The output of an op may not overlap anything else that it touches (but where "may be the
// same" stands below). Nor may it overlap any list of the batch, the scratch, or a buffer mapped read-only.
#ifndef LLADA_DEVICES_HEXAGON_WIRE_H_
#define LLADA_DEVICES_HEXAGON_WIRE_H_
#include <stdint.h>

#define WIRE_MAGIC 0x4c4c4432u /* "2DLL" */
#define WIRE_VERSION 10u
#define WIRE_BUFFERS 256 /* buffers mapped at a time */
#define WIRE_MAX_OPS 4096
#define WIRE_MAX_ROWS 1024 /* rows of a step */
#define WIRE_MAX_RANGES 256
#define WIRE_MAX_LISTS 512            /* different index lists and lists of spans in a batch */
#define WIRE_MAX_LIST_BYTES (1 << 20) /* of all of them together */
#define WIRE_SKEL "llada_hexagon"     /* its modules export llada_hexagon_skel_handle_invoke */

/* ---- Methods of `int llada_hexagon_skel_handle_invoke(uint64_t handle, uint32_t scalars, remote_arg*)`, in bits
   24..28 of the scalars. Open and close are FastRPC's own (handles are passed as in remote_handle64 interfaces: open
   takes two in buffers and one out handle, close one in handle). The invoke returns 0 whenever it could write the
   reply; what happened stands in the reply. A call whose buffers have another count or size returns 14 (bad
   parameter). Several threads of the host may call at a time: map, unmap and query are served while a batch runs,
   batches wait for each other. What a batch names stays mapped until it has ended, or as WirePassing says. */
enum WireMethod {
  WIRE_OPEN = 0,
  WIRE_CLOSE = 1,
  WIRE_QUERY = 2, /* out: WireInfo */
  WIRE_MAP = 3,   /* in: WireMap; out: WireReply */
  WIRE_UNMAP = 4, /* in: WireMap, of which only `buffer` is looked at; out: WireReply */
  WIRE_RUN = 5,   /* in: WireBatch and its ops and ranges in one buffer; out: WireReply */
  WIRE_VOTE = 6   /* in: WireMap, of which only `flags` is looked at; out: WireReply: `op` has a bit per WireVote that
                     was refused, `detail` is the system's status of the first of them, `lines` the bytes of the
                     matrix unit's memory that this session has */
};

/* What the DSP's system is asked for while a session is at work, and what is given back at its end (flags: WIRE_MAP_UP:
   asked for; 0: given back). Refusals cost speed, not work. The last three are asked for with WIRE_MAP_MATRIX alone,
   one after the other. A refused MATRIX or MEMORY ends it: the session has no matrix unit. */
enum WireVote {
  WIRE_VOTE_CLASS = 1,         /* counts as a client that computes */
  WIRE_VOTE_CLOCK = 2,         /* core and bus at their highest corners, no sleep between calls */
  WIRE_VOTE_HVX = 4,           /* power of the vector units */
  WIRE_VOTE_ABSENT = 8,        /* the system takes no votes */
  WIRE_VOTE_MATRIX = 16,       /* power of the matrix unit; without it the unit's first instruction hangs a DSP */
  WIRE_VOTE_MATRIX_CLOCK = 32, /* its highest clock, which chips without a clock of its own refuse */
  WIRE_VOTE_MEMORY = 64        /* its memory, and the unit itself */
};

enum WireStatus {
  WIRE_OK = 0,
  WIRE_BAD_BATCH = 1,   /* magic, version, counts */
  WIRE_BAD_OP = 2,      /* an op's shape makes no sense; detail: WireCheck */
  WIRE_BAD_REF = 3,     /* a ref names a buffer that is not mapped, or bytes beyond its end; detail: the buffer */
  WIRE_UNSUPPORTED = 4, /* a layout or kind that this op cannot take */
  WIRE_MAP_REFUSED = 5, /* the DSP's system refused the mapping; detail: its error number */
  WIRE_BUSY_BUFFER = 6, /* map: the number is in use; unmap: a batch that runs names the buffer */
  WIRE_NO_SCRATCH = 7,  /* the scratch is too small; detail: bytes that this batch needs */
  WIRE_NO_UNIT = 8,     /* run: the matrix unit was not given (detail 0), or a sampled sum is wrong (detail 1) */
  WIRE_NO_PART = 9      /* run: the host said that its columns of a product will not come */
};

enum WireCheck {
  WIRE_CHECK_ROWS = 1,    /* 1 to WIRE_MAX_ROWS; source_rows fits */
  WIRE_CHECK_COLUMNS = 2, /* at least 1; matmul, head: a multiple of 32 where the layout has groups */
  WIRE_CHECK_HEADS =
      3, /* heads * head_dim = columns, rotary even and at most head_dim, the scale of scores in (0, 1] */
  WIRE_CHECK_WEIGHT = 4, /* inputs and outputs of a weight do not fit the op */
  WIRE_CHECK_INDEX = 5,  /* a token, row or position is out of range */
  WIRE_CHECK_SPANS = 6,  /* spans do not cover the rows in order, or a sequence or a range of keys is out of range */
  WIRE_CHECK_KV = 7,     /* strides or counts of the K/V store */
  WIRE_CHECK_ALIGNMENT = 8,
  WIRE_CHECK_ALIAS = 9, /* an output lies over something else that the op touches, over an index list or the scratch */
  WIRE_CHECK_LISTS = 10 /* more lists than WIRE_MAX_LISTS, or larger ones than WIRE_MAX_LIST_BYTES */
};

typedef struct WireReply {
  uint32_t magic;  /* WIRE_MAGIC: written last */
  uint32_t status; /* WireStatus */
  uint32_t op;     /* run: index of the op that failed, or the number of ops done */
  uint32_t detail;
  uint64_t sequence;         /* run: that of the batch */
  uint64_t packets;          /* run, emulator only: instruction packets of all threads together; otherwise 0 */
  uint32_t microseconds[16]; /* run: by kind of op, show and join as matmul */
  uint32_t maps_beside;      /* run: mappings and unmappings that were done while the batch ran */
  uint32_t check_packets;    /* run, emulator only: packets until the first op began, not among `packets` */
  uint64_t cycles;           /* run: of the processor's clock, from the batch's arrival to its end; 0: not counted */
  uint32_t wakes;            /* run: how often workers that slept, or the caller that slept for them, were woken */
  uint32_t lines;            /* run: cache lines of 32 bytes that were maintained for its ranges */
} WireReply;

typedef struct WireInfo {
  uint32_t magic, version;
  uint32_t arch;           /* 67, 73, ... of the build */
  uint32_t emulated;       /* 1: runs under an emulator */
  uint32_t threads;        /* workers at most */
  uint32_t vector_bytes;   /* 128 */
  uint32_t kinds;          /* bit per WireKind that run takes */
  uint32_t matrix_layouts; /* bit per WireLayout that matmul and head take */
  uint32_t map_call;       /* 2: buffers are mapped by HAP_mmap2, 1: by HAP_mmap, 0: the system has neither */
  uint32_t units;          /* bits of WireUnit that a batch may ask for */
  uint32_t reserved[6];
} WireInfo;

/* Units that may compute products of matmul and head, and attention, beside the vector unit's integers. Those define
   them (dsp/activations.h), and every module has them: docs/lab/hexagon-dsp.md, "A matrix unit". */
enum WireUnit {
  WIRE_UNIT_MATRIX = 1 /* a matrix unit in FP16, for any number of rows: within the bounds of
                          tests/hexagon_dsp/unit_bound.h, not bit for bit. Offered once it was voted for */
};

enum WireMapFlags { WIRE_MAP_READ_ONLY = 1, WIRE_MAP_UP = 2, WIRE_MAP_MATRIX = 4 };

typedef struct WireMap {
  uint32_t magic, version;
  uint32_t buffer; /* number: any that is free */
  int32_t fd;      /* as the host's FastRPC library knows it */
  uint32_t bytes;  /* under 2 GiB; in the emulator a multiple of 64 KiB */
  uint32_t flags;
} WireMap;

/* ---- Batches */

typedef struct WireRef {
  uint32_t buffer;
  uint32_t offset; /* bytes */
} WireRef;
#define WIRE_NO_BUFFER 0xffffffffu /* an absent ref */

/* What OpKind of graph/ops.h says. EMBED, ROUTE and EXPERTS are not taken: their ops belong on the host. */
enum WireKind {
  WIRE_EMBED = 0,
  WIRE_SELECT_ROWS = 1,
  WIRE_RMS_NORM = 2,
  WIRE_HEAD_NORM = 3,
  WIRE_MATMUL = 4,
  WIRE_ROPE = 5,
  WIRE_STORE_KV = 6,
  WIRE_ATTENTION = 7,
  WIRE_SWIGLU = 8,
  WIRE_ADD = 9,
  WIRE_ADD_BIAS = 10,
  WIRE_ROUTE = 11,
  WIRE_EXPERTS = 12,
  WIRE_GUIDE = 13,
  WIRE_HEAD = 14,
  WIRE_SHOW = 15, /* these two stand around a matmul whose last columns are the host's */
  WIRE_JOIN = 16
};

/* How a weight lies in its buffer; a weight starts on a multiple of 128 bytes.
   STORED_F32 is row-major, {inputs} contiguous. What takes what:
     norm and bias vectors: STORED_F32;
     matmul, head: STORED_F32 (slow, for small matrices such as routers) and the tiles.
   Tiles (pack.h writes them): outputs are padded to a multiple of 32 with zeros and grouped by 32; a tile is
     int32 exponent[32], then for each pair of 32-input blocks (inputs / 32 rounded up to even, padded with zeros)
     the bytes of the first block, of the second, and int16 scale[2][32].
   A weight of output n is scale * 2^(exponent[n] - 15) * q. Byte n * 4 + j of vector g of a block:
     TILE_Q4_0: 4 vectors; low nibble q + 8 of input 8g + j, high nibble that of input 8g + 4 + j;
     TILE_Q8_0: 8 vectors; q + 128 of input 4g + j;
     TILE_F16: 16 vectors; q is 16 bits: vectors 0 to 7 hold (q >> 8) + 128 of input 4g + j, 8 to 15 hold q & 255. */
enum WireLayout { WIRE_NO_LAYOUT = 0, WIRE_STORED_F32 = 1, WIRE_TILE_Q4_0 = 8, WIRE_TILE_Q8_0 = 9, WIRE_TILE_F16 = 10 };

typedef struct WireWeight {
  WireRef data;
  uint32_t layout;          /* WireLayout; WIRE_NO_LAYOUT: there is none */
  uint32_t inputs, outputs; /* vectors: outputs = 1 */
} WireWeight;

/* Rows [begin, begin + count) of the op's rows belong to a sequence. A trial's rows are not stored; `all` is the
   first of them among the rows of store_kv, all_count their number there. */
typedef struct WireSpan {
  uint32_t begin, count, sequence, trial, all, all_count;
} WireSpan;

/* A row attends to positions [first, last) of its sequence, at least one. */
typedef struct WireKeys {
  uint32_t first, last;
} WireKeys;

/* One result of guide: u + factor * (c - u) of two rows of in[0]; WIRE_NO_ROW as the unconditional one: a copy of c. */
#define WIRE_NO_ROW 0xffffffffu
typedef struct WireGuide {
  uint32_t conditional, unconditional;
  float factor;
} WireGuide;

/* The keys and values of one layer: element (sequence, head, position, i) of keys lies at
   keys + sequence * sequence_stride + head * head_stride + (position * head_dim + i) * (half ? 2 : 4). */
typedef struct WireKv {
  WireRef keys, values;                  /* multiples of 64 */
  uint32_t sequence_stride, head_stride; /* bytes */
  uint32_t sequences, positions, heads, head_dim;
  uint32_t half; /* 1: F16, 0: F32 */
  /* Where rows of trials keep their keys and values between store_kv and attention of a layer:
     rows x heads x {key, value} x head_dim elements; absent where no span is a trial. */
  WireRef trial;
} WireKv;

/* One op. Values are rows x columns of F32, contiguous, 128-byte aligned in the arena (those of store_kv and attention
   as rows are: 128 bytes where head_dim is a multiple of 32, else 4); `rows` is the number of rows of the result. A
   step of several streams has a store_kv and an attention for the rows of each. Fields that a kind does not name are
   0, refs that it does not name are absent.

   select_rows  in[0], out[0], columns; source_rows = rows of in[0]; index = int32 row of in[0] per row
   rms_norm     in[0], out[0] (may be the same), columns; weight[0]; parameter = epsilon
   head_norm    in[0] in place; heads, head_dim; weight[0] (head_dim values); parameter = epsilon
   matmul       in[0], columns = inputs; weight[0..2], out[0..2], pitch[0..2]
   rope         in[0] in place, columns; heads, head_dim, rotary, rope_adjacent; table = per row rotary / 2 cosines,
                then rotary / 2 sines (F32)
   store_kv     in[0] keys, in[1] values, columns = heads * head_dim of kv; kv; index = int32 position per row;
                spans over all rows
   attention    in[0] queries, out[0]; heads, head_dim; kv; parameter = scale of the scores, in (0, 1]; spans of these
                rows; index = WireKeys per row; a step with trials also needs trial_index = int32 position per row of
                store_kv
   swiglu       in[0] gate, in[1] up, out[0] (may be in[0]), columns
   add          in[0] += in[1], columns
   add_bias     in[0] += weight[0], columns
   guide        in[0], out[0], columns; source_rows = rows of in[0]; index = WireGuide per row
   show         out[0] = in[0], columns, written back to memory: once the op is done (WireFlags), the host may read it
   join         waits for the host (WireFlags::joined), then copies in[0], columns, which the host has written and the
                DSP never does, to out[0] with pitch[0]
   head         in[0], columns = inputs; weight[0]; predictions = WirePrediction per row; out_of_softmax and
                never_sampled = int32 token lists; logits (may be absent) = rows x outputs of F32 */
typedef struct WireOp {
  uint16_t kind; /* WireKind */
  int16_t layer; /* for messages only */
  uint32_t rows, columns, source_rows;
  WireRef in[2], out[3];
  WireWeight weight[3];
  uint16_t heads, head_dim, rotary, rope_adjacent;
  float parameter;
  WireRef index, trial_index, table;
  WireRef spans;
  uint32_t span_count;
  WireKv kv;
  WireRef predictions, logits;
  WireRef out_of_softmax, never_sampled;
  uint32_t out_of_softmax_count, never_sampled_count; /* the former at most 64 */
  uint32_t pitch[3]; /* floats from a row of out[i] to the next, whose other columns stay; 0: its columns */
} WireOp;

/* With `max` the largest logit among the tokens that take part in the softmax and t its (first) token:
     rest = sum of exp(l - max) over the others, weighted = sum of (l - max) * exp(l - max) over them.
   So sum = 1 + rest, entropy = log(1 + rest) - weighted / (1 + rest), and the probability of a token with logit l
   that takes part is exp(l - max) / (1 + rest): in double, 1 - p keeps its digits when rest is small. best and
   second are the largest among the tokens that may be sampled, ties to the lower token, -1 when there is none. Where a
   logit is not finite, max or best_logit is +infinity or no number, and the other fields mean nothing. */
typedef struct WirePrediction {
  int32_t best, second;
  float best_logit, second_logit;
  float max, rest, weighted;
  uint32_t reserved; /* 0 */
} WirePrediction;

/* Bytes that the host wrote since the last batch (before the first op the DSP drops its cached copies of them) or will
   read after this one (behind the last op the DSP writes them back): `count` pieces of `bytes` bytes each, the next
   `stride` bytes, 32 at least, behind the one before. Nothing else becomes visible to the other side. So the host may
   not write to a line that the DSP has written and not written back: the DSP's copy would be written over it. A batch
   may have ranges and no op. */
enum WireRangeUse { WIRE_HOST_WROTE = 1, WIRE_HOST_READS = 2 };
#define WIRE_LINE 32
typedef struct WireRange {
  WireRef at;
  uint32_t bytes, use, count, stride;
} WireRange;

/* A buffer that comes and goes while the batch runs, so that one batch reads more than the address space holds. Nothing
   writes to it, and no list or range lies in it. The first op that names it waits until it is mapped, with this
   descriptor and no fewer bytes; behind op `last` it may be unmapped. */
#define WIRE_MAX_PASSING 224
typedef struct WirePassing {
  uint32_t buffer;
  int32_t fd;
  uint32_t bytes;
  uint32_t last;
} WirePassing;

/* Of the ops that are done: with the batch's number, so that a value of an earlier batch counts for nothing, whoever
   still sees it. */
#define WIRE_DONE(sequence, ops) ((uint32_t)(sequence) << 16 | (uint32_t)(ops))

/* Written while the batch runs. Where the host stops a batch that waits for a buffer, it asks to unmap that one, which
   wakes it. */
typedef struct WireFlags {
  uint32_t done; /* by the DSP: WIRE_DONE; of an earlier batch, or 0, until the first op is done */
  uint32_t reserved[15];
  uint32_t stop;   /* by the host: 1: a buffer, or the host's columns, that the batch waits for will not come */
  uint32_t joined; /* by the host: WIRE_DONE: joins among the ops before that one may go on; `stop` is its neighbour */
  uint32_t reserved2[14];
} WireFlags;

typedef struct WireBatch {
  uint32_t magic, version;
  uint64_t sequence; /* comes back in the reply */
  uint32_t op_count; /* WireOp[op_count] follow, then WireRange[range_count], then WirePassing[passing_count] */
  uint32_t range_count;
  uint32_t threads;       /* workers to use; 0: all */
  uint32_t scratch_bytes; /* a few MiB will do; WIRE_NO_SCRATCH says what is missing */
  WireRef scratch;        /* multiple of 128; contents are lost */
  uint32_t polls; /* looks for work of an idle worker before it sleeps, while the batch runs; 0: the module's own */
  uint32_t passing_count; /* at most WIRE_MAX_PASSING */
  WireRef flags;          /* WireFlags, or absent */
  uint32_t units;         /* WireUnit that may be used, of those in WireInfo; 0: integers alone */
  uint32_t reserved;      /* 0 */
} WireBatch;

#endif
