#!/usr/bin/env python3
"""Writes the tables of docs/lab/benchmarks.md from one run of `llada bench`.

    tools/bench_docs.py                                   # measures llada-8b:q4_0 for some minutes, writes the tables
    tools/bench_docs.py --from report.json                # the same tables from a saved report, or from several that
                                                          # each hold a part; ceilings are the first one's
    tools/bench_docs.py --self-test

Everything between the two markers of the document is replaced; what stands around them is kept. The peers' figures
are from another day on the same kind of machine and are labelled so; tools/compare_peers.py times a peer beside ours
in one run.
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- tables: begin (tools/bench_docs.py writes what follows) -->", "<!-- tables: end -->"

# One forward of LLaDA-8B, Q4_0, two threads, logits for every row, ms. Measured on two cores of an AMD EPYC (Zen 5)
# virtual machine on 2026-11-20: the better of ik_llama.cpp's 4-bit and 8-bit layouts (revision of 2026-08-15), and
# llama.cpp (ggml 0.18.1).
BEST_PEER_MS = {1: 88, 8: 258, 16: 368, 32: 593, 64: 958, 128: 1662}
LLAMA_CPP_MS = {1: 88, 8: 290, 16: 416, 32: 828, 64: 1659, 128: 3382}
FORWARD_TARGETS = {8: (1.8, 2.0), 32: (1.5, 2.1), 128: (1.2, 2.4)}  # rows: times faster than (best peer, llama.cpp)
GEMM_TARGETS = {32: 65, 128: 80}  # rows: percent of the int8 peak
PHONE_SECONDS = 16.1  # published for a phone NPU: 128 tokens from a 78-token prompt
AUTOREGRESSIVE_SECONDS = 10.3  # the best peer's 12.4 tokens/s with a same-size autoregressive model


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def verdict(met, behind=""):
    return "met" if met else f"not met{': ' + behind if behind else ''}"


def machine_table(report):
    m = report["machine"]
    rows = [(what, f"{c['read_gb_per_s']:.1f}", f"{c['int8_gop_per_s']:.0f}", f"{c['float_gflop_per_s']:.0f}")
            for what, c in (("1 thread", m["one_thread"]), (f"{m['threads']} threads", m),
                            (f"{m['threads']} threads, at the end", m["after"]))]
    return table(["ceilings", "read GB/s", f"int8 GOP/s ({m['int8_instruction']})",
                  f"float GFLOP/s ({m['float_instruction']})"], rows)


def gemm_table(report):
    """A line per type and shape, a column per number of rows; errors are the largest over the rows."""
    sizes = sorted({g["rows"] for g in report["gemm"]})
    shapes = {}
    for g in report["gemm"]:
        shapes.setdefault((g["type"], f"{g['k']} x {g['n']}"), {})[g["rows"]] = g
    lines = []
    for (kind, shape), of in shapes.items():
        words = "; ".join(f"{n} rows {verdict(of[n]['percent_of_int8_peak'] >= target, f'{target} % wanted')}"
                          for n, target in GEMM_TARGETS.items() if kind == "q4_0" and n in of)
        errors = [max(g[key] for g in of.values()) for key in (
            "relative_error", "relative_error_with_8_bit_activations", "relative_error_with_outliers")]
        lines.append((kind, shape, *(f"{of[n]['gop_per_s']:.0f} ({of[n]['percent_of_int8_peak']:.0f} %)" if n in of else ""
                                     for n in sizes), *(f"{e:.1e}" for e in errors), words))
    return table(["type", "k x n", *(f"{n} row{'s' if n > 1 else ''}" for n in sizes), "error of the kernel",
                  "with 8-bit activations", "with outliers", "target"], lines)


def types_table(report, rows=32, share=85):
    """GOP/s of each type beside Q4_0's, over the shapes, at `rows` rows."""
    speed = {}
    for g in report["gemm"]:
        if g["rows"] == rows:
            speed.setdefault(g["type"], []).append(g["gop_per_s"])
    mean = {t: sum(v) / len(v) for t, v in speed.items()}
    if "q4_0" not in mean:
        return ""
    out = [(t, f"{v:.0f}", f"{100 * v / mean['q4_0']:.0f} %",
            verdict(100 * v / mean["q4_0"] >= share, f"{share} % wanted")) for t, v in mean.items() if t != "q4_0"]
    return table([f"type, {rows} rows", "GOP/s", "of Q4_0's", "target"], out) if out else ""


def forward_word(f, machine):
    rows, ms = f["rows"], f["ms_median"]
    if rows == 1:
        # Beside readings just before each run; in old reports of the better of the two ceilings.
        share = f.get("percent_of_floor") or 100 * f["read_gb_per_s"] / max(machine["read_gb_per_s"],
                                                                            machine["after"]["read_gb_per_s"])
        return f"{verdict(share >= 90)}: {share:.0f} % of reading the weights alone{'' if share >= 90 else ', 90 % wanted'}"
    if rows not in BEST_PEER_MS:
        return ""
    ratio = BEST_PEER_MS[rows] / ms
    if rows in FORWARD_TARGETS:
        best, llama = FORWARD_TARGETS[rows]
        met = ratio >= best and LLAMA_CPP_MS[rows] / ms >= llama
        return verdict(met, f"{best}x and {llama}x wanted" + ("" if ratio >= 1 else "; slower than the best peer"))
    return "ahead" if ratio >= 1 else "behind the best peer"


def forward_table(report):
    rows = []
    for f in report["forward"]:
        n, ms = f["rows"], f["ms_median"]
        ratios = [f"{peer[n] / ms:.2f}x" if n in peer else "" for peer in (BEST_PEER_MS, LLAMA_CPP_MS)]
        total = sum(f["phases"].values())
        shares = ", ".join(f"{k} {100 * v / total:.0f} %"
                           for k, v in sorted(f["phases"].items(), key=lambda item: -item[1]) if v >= 0.02 * total)
        rows.append((n, f"{ms:.0f}", f"{f['gop_per_s']:.0f}", f"{f['percent_of_int8_peak']:.0f} %",
                     f"{f['read_gb_per_s']:.1f}", *ratios, forward_word(f, report["machine"]), shares))
    return table(["rows", "ms", "GOP/s", "of the int8 peak", "GB/s", "to the best peer", "to llama.cpp", "target",
                  "where the time goes"], rows)


def runs_table(report):
    rows = []
    for a in report["attention"]:
        share = a["percent_of_forward"]
        rows.append((f"attention of {a['rows']} rows over {a['keys']} positions", f"{a['attention_ms_median']:.0f} ms",
                     f"{share:.1f} % of that forward", verdict(share <= 15, "15 % wanted")))
    for e in report["end_to_end"]:
        limit = PHONE_SECONDS if e["refresh"] == "block" else AUTOREGRESSIVE_SECONDS
        whose = "the phone NPU's" if e["refresh"] == "block" else "autoregressive decoding by the best peer"
        rows.append((f"{e['gen_tokens']} tokens from {e['prompt_tokens']}, blocks of {e['block_length']}, "
                     f"{e['tokens_per_step']} per step, refresh per {'block' if e['refresh'] == 'block' else 'run'}, "
                     f"rows: {e['rows_policy']}", f"{e['seconds']:.2f} s",
                     f"{e['forwards']} forwards, {e['full_forwards']} full, {e['rows']} rows",
                     verdict(e["seconds"] < limit, f"{limit} s ({whose}) wanted")))
    return table(["work", "measured", "what it took", "target"], rows)


def tables(report, command, day):
    m, model = report["machine"], report["model"] or {}
    parts = [
        f"Machine: {m['cpu']}, {m['threads']} threads, {m['isa']} kernels. All *measured* on {day}, medians of "
        f"{report['repeats']}; shares are of the peak measured just before and after.",
        f"    {command}",
        machine_table(report)]
    again = sum(f.get("timings", 1) > 1 for part in ("gemm", "forward", "attention") for f in report[part])
    if again:
        parts.append(f"{again} of the products and forwards {'was' if again == 1 else 'were'} timed again, because the peak "
                     "just before or after had fallen by more than 8 %.")
    drift = max(abs(m[key] / m["after"][key] - 1) if m["after"][key] else 0
                for key in ("read_gb_per_s", "int8_gop_per_s", "float_gflop_per_s"))
    if drift > 0.15:
        parts.append(f"**The machine was not quiet**: its ceilings differ by {100 * drift:.0f} % between beginning and "
                     "end, so shares and verdicts below are not to be relied on.")
    if model:
        parts.append(f"Model: {model['source']}, {model['layers']} layers, {model['parameters'] / 1e9:.2f} billion "
                     f"parameters, {model['stored_bytes'] / 1e9:.2f} GB stored, {model['forward_bytes'] / 1e9:.2f} GB "
                     f"read by a forward; peak memory of the run {report['peak_memory_bytes'] / 1e9:.2f} GB.")
    if report["gemm"]:
        parts += ["### Matrix products, GOP/s and share of the int8 peak", gemm_table(report), types_table(report)]
    if report["forward"]:
        parts += ["### Whole forwards, logits for every row",
                  "Peers: *measured* on the same kind of machine on another day (2026-11-20).", forward_table(report)]
    if report["attention"] or report["end_to_end"]:
        parts += ["### Attention and whole runs", runs_table(report)]
    parts = [p if p[:1] in "|# " else textwrap.fill(p, 120, break_on_hyphens=False) for p in parts if p]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def merged(reports):
    """One report of several that each hold some parts."""
    out = dict(reports[0])
    for report in reports[1:]:
        for part in ("gemm", "forward", "attention", "end_to_end"):
            out[part] = out[part] + report[part]
        out["model"] = out["model"] or report["model"]
        out["peak_memory_bytes"] = max(out["peak_memory_bytes"], report["peak_memory_bytes"])
        out["repeats"] = min(out["repeats"], report["repeats"])
    return out


def replace_tables(document, text):
    """The document with what is between the markers replaced."""
    if document.count(BEGIN) != 1 or document.count(END) != 1 or document.index(BEGIN) > document.index(END):
        raise ValueError(f"needed the line {BEGIN} once and after it {END}")
    head, rest = document.split(BEGIN)
    return f"{head}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}"


def self_test():
    ceilings = {"read_gb_per_s": 50.0, "int8_gop_per_s": 2000.0, "float_gflop_per_s": 500.0}
    machine = dict(ceilings, cpu="c", isa="i", threads=2, int8_instruction="a", float_instruction="b",
                   one_thread=ceilings, after=ceilings)
    forward = {"rows": 8, "ms_median": 129.0, "gop_per_s": 1.0, "percent_of_int8_peak": 2.0, "read_gb_per_s": 30.0,
               "phases": {"matmul": 9.0, "head": 1.0}}
    report = {"machine": machine, "repeats": 5, "model": None, "peak_memory_bytes": 1, "attention": [],
              "gemm": [{"k": 1, "n": 2, "rows": 32, "type": t, "ms_median": 1.0, "gop_per_s": s,
                        "percent_of_int8_peak": p, "relative_error": 1e-5, "relative_error_with_8_bit_activations": 1e-2,
                        "relative_error_with_outliers": 1e-2}
                       for t, s, p in (("q4_0", 1000.0, 64.9), ("q8_0", 849.0, 60.0), ("q6_k", 850.0, 60.0))],
              "forward": [forward, dict(forward, rows=32, ms_median=700.0), dict(forward, rows=1),
                          dict(forward, rows=1, percent_of_floor=97.0, timings=2)],
              "end_to_end": [{"refresh": r, "rows_policy": "x", "seconds": s, "gen_tokens": 1, "prompt_tokens": 1,
                              "block_length": 1, "tokens_per_step": 1, "forwards": 1, "full_forwards": 1, "rows": 1}
                             for r, s in (("block", 16.0), ("once", 10.4))]}
    text = tables(report, "command", "today")
    for expected in ("| 8 | 129 | 1 | 2 % | 30.0 | 2.00x | 2.25x | met | matmul 90 %, head 10 % |",
                     "not met: 1.5x and 2.1x wanted; slower than the best peer",
                     "not met: 60 % of reading the weights alone, 90 % wanted", "32 rows not met: 65 % wanted |",
                     "| q8_0 | 1 x 2 | 849 (60 %) | 1.0e-05 | 1.0e-02 | 1.0e-02 |  |",
                     "met: 97 % of reading the weights alone |",
                     "| q8_0 | 849 | 85 % | not met: 85 % wanted |", "| q6_k | 850 | 85 % | met |",
                     "not met: 10.3 s (autoregressive decoding by the best peer) wanted"):
        assert expected in text, (expected, text)
    assert text.count("16.00 s") == 1 and "phone" not in text
    assert "not quiet" not in text
    noisy = dict(report, machine=dict(machine, read_gb_per_s=24.0))
    noisy_text = tables(noisy, "command", "today")
    assert "**The machine was not quiet**: its ceilings differ by 52 %" in noisy_text, noisy_text
    assert "60 % of reading the weights alone" in noisy_text  # of the better ceiling
    assert "1 of the products and forwards was timed again" in text
    both = merged([report, dict(report, gemm=[], model={"name": "m"}, repeats=3)])
    assert (len(both["gemm"]), len(both["forward"]), both["repeats"], both["model"]["name"]) == (3, 8, 3, "m"), both
    page = replace_tables(f"before\n{BEGIN}\nold\n{END}\nafter\n", "new")
    assert page == f"before\n{BEGIN}\n\nnew\n{END}\nafter\n", page
    try:
        replace_tables("no markers", "new")
    except ValueError:
        pass
    else:
        raise AssertionError("a document without markers was accepted")
    print("self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llada", default=str(ROOT / "build/release/bin/llada"))
    parser.add_argument("--preset", default="llada-8b:q4_0")
    parser.add_argument("--from", dest="saved", action="append", metavar="FILE",
                        help="a saved --json report instead of a run; may be repeated")
    parser.add_argument("--out", default=str(ROOT / "docs/lab/benchmarks.md"))
    parser.add_argument("--self-test", action="store_true")
    options, more = parser.parse_known_args()
    if options.self_test:
        return self_test()
    words = ["bench", "--preset", options.preset, "--json", *more]
    command = "llada " + " ".join(words)
    if options.saved:
        report = merged([json.loads(pathlib.Path(name).read_text()) for name in options.saved])
        runs = "in parts, from saved reports" if len(options.saved) > 1 else "in one run, from its saved report"
        command = f"llada bench --preset {options.preset} --json ({runs})"
    else:
        done = subprocess.run([options.llada, *words], stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            sys.exit(f"bench_docs.py: {command} ended with {done.returncode}")
        report = json.loads(done.stdout)
    out = pathlib.Path(options.out)
    out.write_text(replace_tables(out.read_text(), tables(report, command, datetime.date.today().isoformat())))
    print(f"{out}: tables written")


if __name__ == "__main__":
    main()
