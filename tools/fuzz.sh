#!/usr/bin/env bash
# Runs the fuzz targets for SECONDS in all, shared evenly by the targets. The corpus grows in build/fuzz/corpus.
# usage: fuzz.sh [SECONDS [target...]]   (60, all)   e.g. fuzz.sh 300 forms tools
set -uo pipefail
cd "$(dirname "$0")/.."
names=("${@:2}")
[ $# -gt 1 ] || names=(gguf safetensors tokenizer profile routing packed program hexagon listing forms tools api http)
cmake --preset fuzz >/dev/null && cmake --build --preset fuzz --target "${names[@]/#/fuzz_}" fuzz_seeds fuzz_hexagon_seeds -- --quiet || exit 1
build/fuzz/bin/fuzz_seeds build/fuzz/seeds && build/fuzz/bin/fuzz_hexagon_seeds build/fuzz/seeds/hexagon || exit 1
mkdir -p build/fuzz/seeds/profile
for profile in profiles/*.json; do (printf p; cat "$profile") >"build/fuzz/seeds/profile/$(basename "$profile")"; done
mkdir -p build/fuzz/seeds/listing
printf '{"sha":"0123456789abcdef0123456789abcdef01234567","siblings":[{"rfilename":"config.json","size":7},{"rfilename":"model-00001-of-00002.safetensors","lfs":{"size":9}},{"rfilename":"d/m-Q4_0.gguf"}]}' >build/fuzz/seeds/listing/list
mkdir -p build/fuzz/seeds/forms
printf 'Zyes|no\\|maybe' >build/fuzz/seeds/forms/choice
printf '[^(ab|[^c-e\\d])*\\u00e9{2,3}.+?$' >build/fuzz/seeds/forms/regex
printf '\\{"type":"object","properties":{"a":{"type":"integer","minimum":-5},"b":{"$ref":"#/$defs/x"}},"required":["a"],"$defs":{"x":{"anyOf":[{"enum":[1,"a"]},{"type":"array","items":{"$ref":"#/$defs/x"},"maxItems":2}]}}}' >build/fuzz/seeds/forms/schema
n=0; while IFS= read -r line; do printf '\\%s' "$line" >"build/fuzz/seeds/forms/schema$((n += 1))"; done <tests/data/schemas.jsonl
printf ']3' >build/fuzz/seeds/forms/object
printf '^{"a": <string 1..5>, "b": <int 0..150>} <choice a|b> <<' >build/fuzz/seeds/forms/template
mkdir -p build/fuzz/seeds/tools
tool='{"type":"object","properties":{"b":{"type":"string","maxLength":3},"a":{"type":["integer","null"],"description":"d"},"c":{"type":"array","items":{"type":"object","additionalProperties":{"type":"boolean"}}}},"required":["b"]}'
for first in 0 4; do  # how calls are written: as JSON, as Gemma's
  printf '%s{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"so","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\\"a\\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"1"}],"tools":[{"type":"function","function":{"name":"f","description":"d","strict":true,"parameters":%s}}],"tool_choice":"auto","x":{"a": null, "b": "x"}}' "$first" "$tool" >"build/fuzz/seeds/tools/chat$first"
  printf '%s{"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"1"}],"tools":[{"type":"function","name":"f","parameters":%s}],"tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false,"x":{"b": "x"}}' $((first + 1)) "$tool" >"build/fuzz/seeds/tools/response$first"
  printf '%s{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"1"}]}],"tools":[{"name":"f","input_schema":%s}],"tool_choice":{"type":"any"},"x":{"b": "x"}}' $((first + 2)) "$tool" >"build/fuzz/seeds/tools/message$first"
  printf '%s{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","tool_name":"f","content":"1"}],"tools":[{"type":"function","function":{"name":"f","parameters":%s}}],"x":{"b": "x"}}' $((first + 3)) "$tool" >"build/fuzz/seeds/tools/ollama$first"
done
printf '0Hi <tool_call>\n{"name": "f", "arguments": {"a": "}"}}\n</tool_call>\n<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>' >build/fuzz/seeds/tools/answer
printf '4Hi \370call:f{a:[1,true,None],b:{c:\372x}\372}}\371\370call:g{}\371' >build/fuzz/seeds/tools/gemma
printf 'dsim:v79-8elite,window=40%%,memory=lru,fallback=cpu' >build/fuzz/seeds/profile/device
mkdir -p build/fuzz/seeds/http
request() { printf 'POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\nContent-Length: %s\r\n\r\n%s' "$2" "${#3}" "$3" >"build/fuzz/seeds/http/$1"; }
request chat /v1/chat/completions '{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_tokens":64,"temperature":0.5,"seed":7,"stop":["a","b"],"n":2,"stream":true,"stream_options":{"include_usage":true},"diffusing":"frames","llada":{"preset":"fast","threshold":0.9,"kv":"dual"},"response_format":{"type":"text"},"user":null}'
request completion '/v1/completions?x=1' '{"prompt":[[1,2],[3]],"tokens":[1,2],"echo":true,"logprobs":1,"max_completion_tokens":1,"top_p":0.9,"llada":{"revision":"dual-path","slide":false,"latency_table":"8:1,16:2"}}'
request infill /infill '{"text":"a <mask:4> b <mask>","diffusing":true,"llada":{"edit_threshold":0.4}}'
request responses /v1/responses '{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]},{"role":"assistant","id":"msg_1","status":"completed","content":[{"type":"output_text","text":"a","annotations":[]}]}],"instructions":"s","max_output_tokens":9,"truncation":"disabled","include":[],"text":{"format":{"type":"text"}},"stream":true,"store":true}'
printf 'GET /v1/models/some%%2Fmodel%%20v1?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n' >build/fuzz/seeds/http/model
printf 'POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n5\r\n{"n":\r\n0\r\n\r\n' >build/fuzz/seeds/http/chunked
targets=("${names[@]/#/build/fuzz/bin/fuzz_}")
jobs=$(nproc)
each=$(((${1:-60} + ${#targets[@]} - 1) / ${#targets[@]}))

fuzz() {  # target
  local name seeds dirs log status=0
  name=$(basename "$1")
  seeds=build/fuzz/seeds/${name#fuzz_}
  dirs=("build/fuzz/corpus/$name")
  mkdir -p "${dirs[0]}"
  [ -d "$seeds" ] && dirs+=("$seeds")
  log=$(mktemp)
  if "$1" -max_total_time="$each" -timeout=25 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="build/fuzz/$name-" "${dirs[@]}" >"$log" 2>&1; then
    echo "$name: $(sed -n 's/stat::number_of_executed_units: *//p' "$log") inputs in ${each}s, no finding"
  else
    status=1
    echo "$name: FAILED"
    tail -n 40 "$log"
  fi
  rm -f "$log"
  return $status
}

# Each target has one thread: as many at once as there are processors.
status=0
for target in "${targets[@]}"; do
  [ "$(jobs -rp | wc -l)" -lt "$jobs" ] || wait -n || status=1
  fuzz "$target" &
done
while [ -n "$(jobs -p)" ]; do wait -n || status=1; done
exit $status
