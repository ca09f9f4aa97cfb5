"""One request at a time: as the program answers, and frame by frame."""

from __future__ import annotations

import array

import pytest

import llada
from conftest import FACTS, GAPS, QUICK, ROOT, SORT


@pytest.mark.parametrize(
    "options",
    [{}, {"preset": "fast", "gen_length": 48}, {"steps": 0, "gen_length": 32}, {"threshold": 0.7, "block_length": 16},
     {"temperature": 0.9, "seed": 7, "threshold": 0.9}, {"steps": 8, "gen_length": 32},
     {"stop": ["9", "}"], "threshold": 0.9}, {"preset": "exact", "revision": "edit", "gen_length": 32}],
    ids=str,
)
@pytest.mark.parametrize("prompt", [SORT, FACTS])
def test_as_the_program(model, command, presets, prompt, options):
    if not presets and (not options or "preset" in options):
        pytest.skip("the library was built without presets")
    flags = []
    for key, value in options.items():
        key = {"preset": "preset-decode"}.get(key, key.replace("_", "-"))
        for one in value if isinstance(value, list) else [value]:
            flags += [f"--{key}", str(one)]
    expected = command("run", *flags, "-p", prompt)
    result = model.generate(prompt, **options)
    assert result.text == str(result) == expected["text"]
    assert result.tokens == expected["tokens"]
    assert result.finish_reason == expected["finish_reason"]
    stats = expected["stats"]
    assert result.stats.forwards == stats["nfe"]
    assert result.stats.steps == stats["steps"]
    assert result.stats.rows == stats["rows"]
    assert result.stats.prompt_tokens == stats["prompt_tokens"]
    assert result.stats.content_tokens == stats["content_tokens"]
    assert result.stats.seed == stats.get("seed")
    for name in ["full_forwards", "sparse_forwards", "logit_rows", "trial_rows", "drafts_proposed", "drafts_accepted",
                 "revisions_made", "revisions_changed", "committed_tokens", "kv_bytes", "stopped_early"]:
        assert getattr(result.stats, name) == stats[name], name
    assert f"{result.stats.canvas_hash:016x}" == stats["canvas_hash"]
    assert result.stats.seconds > 0
    stops = options.get("stop", [])
    assert result.stopped_by == (next((s for s in stops if s in model.detokenize(result.tokens)), ""))


def test_forms_of_a_prompt(model, command):
    options, flags = {"threshold": 0.9}, ["--threshold", "0.9"]
    expected = model.generate(SORT, **options)
    assert model.chat([{"role": "user", "content": SORT}], **options).tokens == expected.tokens
    assert model.generate([("user", SORT)], **options).tokens == expected.tokens
    ids = model.chat_tokens([{"role": "user", "content": SORT}])
    assert model.generate(ids, **options).tokens == expected.tokens
    assert model.generate(array.array("i", ids), **options).tokens == expected.tokens
    assert model.generate(SORT, raw=True, **options).tokens == command("run", "--raw", *flags, "-p", SORT)["tokens"]
    answer = command("run", "--system", "Be brief.", *flags, "-p", SORT)
    assert model.generate(SORT, system="Be brief.", **options).tokens == answer["tokens"]
    assert answer["stats"]["prompt_tokens"] > expected.stats.prompt_tokens
    developer = [("developer", "Be brief."), ("user", SORT)]
    assert model.chat(developer, **options).tokens == answer["tokens"]
    talk = [("user", SORT), ("assistant", "3 6 38 41 51"), ("user", FACTS)]
    assert model.chat(talk, **options).stats.prompt_tokens == len(model.chat_tokens(talk))


def test_frames(model):
    expected = model.generate(SORT, steps=0, gen_length=32)
    mask = model.info.mask_token
    with model.stream(SORT, steps=0, gen_length=32) as stream:
        ids = [mask] * len(expected.tokens)
        committed = 0
        for number, frame in enumerate(stream):
            assert frame.number == number
            assert frame.edits == sorted(frame.edits) and frame.edits
            assert [i for i, (a, b) in enumerate(zip(ids, frame.ids)) if a != b] == frame.edits
            ids = frame.ids
            assert frame.masks_left == ids.count(mask)
            assert frame.committed >= committed
            committed = frame.committed
            for token, identifier in zip(frame.tokens, ids):
                assert token.id == identifier
                assert (token.state == "masked") == (identifier == mask) == (token.confidence == 0)
                assert 0 <= token.confidence <= 1
                assert token.text == ("\u2591" if identifier == mask else model.detokenize([identifier], control=True))
        assert frame.text == expected.text
        assert stream.result.tokens == expected.tokens == ids
        assert list(stream) == []
    assert stream.result.confidences.tolist() == frame.confidences.tolist()


def test_result_without_the_frames(model):
    assert model.stream(SORT, **QUICK).result.tokens == model.generate(SORT, **QUICK).tokens


def test_infill(model, command):
    expected = command("infill", "--threshold", "0.9", "--text", GAPS)
    result = model.infill(GAPS, threshold=0.9)
    assert result.text == expected["text"] and result.tokens == expected["tokens"]
    assert result.finish_reason == "filled"
    gaps = [i for i, state in enumerate(result.states) if state != "fixed"]
    assert gaps == [i for span in expected["spans"] for i in range(span["position"], span["position"] + span["length"])]
    again = model.infill([0 if i in gaps else token for i, token in enumerate(result.tokens)], gaps, threshold=0.9)
    assert again.tokens == result.tokens
    frames = list(model.stream_infill(GAPS, threshold=0.9))
    assert frames[0].tokens[0].state == "fixed" and frames[0].tokens[0].confidence == 1
    assert frames[-1].text == result.text


def test_confidence_is_the_probability_of_the_forward(model):
    """The first token that one-token-per-forward decoding keeps is the one that its first forward is surest of."""
    numpy = pytest.importorskip("numpy")
    prompt = model.chat_tokens([("user", SORT)])
    options = {"steps": 0, "gen_length": 16, "block_length": 16}
    first = next(model.stream(SORT, **options))
    logits = model.logits(prompt + [model.info.mask_token] * 16, range(len(prompt), len(prompt) + 16))
    assert logits.shape == (16, model.info.vocabulary) and logits.dtype == numpy.float32
    logits = logits.astype(float)
    odds = numpy.exp(logits - logits.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    (position,) = first.edits
    assert position == odds.max(axis=1).argmax()
    assert first.ids[position] == odds[position].argmax()
    assert first.confidences[position] == pytest.approx(odds.max(), abs=1e-3)
    assert isinstance(first.confidences, numpy.ndarray)


def test_without_numpy(model, monkeypatch):
    numpy = pytest.importorskip("numpy")
    ids = model.tokenize(SORT)
    expected, sure = model.logits(ids, [1, 3]), model.generate(SORT, **QUICK).confidences
    monkeypatch.setattr("llada._arrays.numpy_module", lambda: None)
    monkeypatch.setattr("llada._model.numpy_module", lambda: None)
    rows = model.logits(ids, [1, 3])
    assert all(isinstance(row, array.array) for row in rows)
    assert numpy.array_equal(numpy.array(rows), expected)
    assert isinstance(model.generate(SORT, **QUICK).confidences, array.array)
    assert model.generate(SORT, **QUICK).confidences.tolist() == sure.tolist()


def test_text_and_tokens(model):
    for text in [SORT, "", "Größe 3 €\n\U0001f600", "a\0b"]:
        assert model.detokenize(model.tokenize(text)) == text
    assert model.tokenize("<|eot_id|>", control=True) == [model.info.eot_token]
    assert model.info.eot_token not in model.tokenize("<|eot_id|>")
    end = [model.info.eos_token]
    assert model.detokenize(end) == ""
    assert model.detokenize(end, control=True) != ""
    assert model.tokenize(model.detokenize(end, control=True)) != end


def test_notes_of_the_file(model, tmp_path):
    assert model.info.notes == ()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).symlink_to(ROOT / "models" / "tiny-llada" / name)
    (tmp_path / "chat_template.jinja").write_text("[INST] {{ messages[-1].content }} [/INST]")
    with llada.Model.load(tmp_path, threads=1) as opened:
        note, = opened.info.notes
    assert note.startswith("the chat template of the file is not one of those that are known")


def test_progress(model_path):
    seen = []
    with llada.Model.load(model_path, threads=1, progress=lambda done, total: seen.append((done, total))) as opened:
        assert opened.info.file_bytes > 0
    assert len(seen) > 1 and seen == sorted(seen) and 0 < seen[-1][0] <= seen[-1][1] == seen[0][1]


def test_html(model):
    for frame in model.stream_infill("<b>\"x\" & 'y'</b> 1+1=<mask:2>", **QUICK):
        page = frame._repr_html_()
        assert "<b>" not in page and "&lt;" in page and "&amp;" in page
        assert page.count("<span ") == len(frame.ids)
        assert page.count("border-bottom") == len(frame.edits)
        assert page.count("background:#ddd") == frame.masks_left
