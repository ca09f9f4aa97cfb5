"""lm-evaluation-harness on llada: the model class `llada`.

    python -m llada.lm_eval run --model llada --model_args pretrained=model.gguf,preset=balanced --tasks gsm8k \
        --apply_chat_template

That is the harness's own command line with this class registered; a program imports this module and gives
`lm_eval.simple_evaluate` the name "llada" or a `LladaLM`. Options of `Model.load`, of requests and of `score` stand
together in --model_args. Scores are `Model.score`'s, answers come from `Model.generate_many`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Optional

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tqdm import tqdm

from . import _capi, _options
from ._model import Model

# What tasks ask of a model that decodes greedily, as this one does without `temperature`.
_GREEDY = {"do_sample": (False,), "temperature": (0, 0.0, None), "top_p": (1, 1.0, None), "num_beams": (1,)}
# Continuations of one call: what method mc holds of them all has a bound in the library.
_MOST_CHOICES = 8


def _streams(batch_size: Any) -> int:
    try:
        return int(batch_size)
    except ValueError:
        raise ValueError(f"batch_size: found {batch_size!r}, needed a number of requests that share forwards") from None


@register_model("llada")
class LladaLM(TemplateLM):
    """pretrained: a GGUF file or a Hugging Face folder. batch_size: requests that share forwards when answers are
    generated. add_bos_token: begin what is scored or generated without a chat template as the model wants it."""

    def __init__(
        self,
        pretrained: str,
        batch_size: Any = 1,
        max_batch_size: Any = None,
        device: Optional[str] = None,
        add_bos_token: bool = True,
        **options: Any,
    ):
        super().__init__()
        self._streams = _streams(batch_size)
        self._bos = add_bos_token
        self._request_options = {k: v for k, v in options.items() if _options.known(k, _capi.FOR_REQUEST)}
        self._score_options = {k: v for k, v in options.items() if _options.known(k, _capi.FOR_SCORE)}
        of_load = {k: v for k, v in options.items() if k not in {**self._request_options, **self._score_options}}
        # The harness says cuda:0 where nobody said anything.
        self._model = Model.load(pretrained, device=None if device == "cuda:0" else device, **of_load)
        self._conversations: dict[str, list[int]] = {}
        self._device = self._model.info.device

    # ---- Text and tokens ----

    @property
    def eot_token_id(self) -> int:
        info = self._model.info
        return info.eot_token if info.eot_token >= 0 else info.eos_token

    @property
    def prefix_token_id(self) -> int:
        bos = self._model.info.bos_token
        return bos if bos >= 0 else self.eot_token_id

    @property
    def tokenizer_name(self) -> str:
        return f"llada {self._model.info.path}".replace("/", "__")

    def chat_template(self, chat_template: Any = False) -> str:
        """The style's name: templates are not text here, they are recognised by the library."""
        return self._model.info.chat_style if chat_template else ""

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The conversation in the model's own format, as text. A message never gives control tokens, so its ids are
        kept for when this text comes back as a request."""
        begun = "" if add_generation_prompt else chat_history[-1]["content"]
        messages = chat_history if add_generation_prompt else chat_history[:-1]
        ids = self._model.chat_tokens(messages) + self._model.tokenize(begun)
        text = self._model.detokenize(ids, control=True)
        self._conversations[text] = ids
        return text

    def tok_encode(self, string: str, add_special_tokens: Optional[bool] = None, **_: Any) -> list[int]:
        if string in self._conversations:
            return list(self._conversations[string])
        bos = self._bos if add_special_tokens is None else add_special_tokens
        return self._model.tokenize(string, bos=bos, control=True)

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        if context in self._conversations:
            return self.tok_encode(context), self._model.tokenize(continuation)
        before, behind = super()._encode_pair(context, continuation)
        return before, behind

    # ---- Scores ----

    def _score(self, prompt: Sequence[int], continuations: Iterable[Sequence[int]]) -> list[tuple[float, bool]]:
        scores = self._model.score_many(prompt, continuations, **self._score_options)
        return [(score.log_probability, score.greedy) for score in scores]

    def _loglikelihood_tokens(
        self, requests: Iterable[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False, **_: Any
    ) -> list[tuple[float, bool]]:
        """The choices of a question follow each other with one prompt, and share forwards."""
        found: list[tuple[float, bool]] = []
        asked = list(requests)
        with tqdm(total=len(asked), desc="llada: loglikelihood", disable=disable_tqdm) as bar:
            for prompt, group in itertools.groupby(asked, key=lambda request: request[1]):
                while choices := list(itertools.islice(group, _MOST_CHOICES)):
                    scores = self._score(prompt, [continuation for _, _, continuation in choices])
                    for (key, _, _), score in zip(choices, scores):
                        if key is not None:
                            self.cache_hook.add_partial("loglikelihood", key, score)
                    found += scores
                    bar.update(len(choices))
        return found

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        """Of whole texts. One that is longer than the model's context is scored in windows, of which each token is in
        one, with as much as fits before it."""
        found = []
        for request in tqdm(requests, desc="llada: loglikelihood_rolling", disable=disable_tqdm):
            ids = self.tok_encode(request.args[0], add_special_tokens=False)
            longest = self._model.info.context or max(len(ids), 1)
            windows = get_rolling_token_windows(ids, self.prefix_token_id, longest, 1)
            parts = [make_disjoint_window(window) for window in windows]
            found.append(sum(self._score(prompt, [behind])[0][0] for prompt, behind in parts))
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, found[-1])
        return found

    # ---- Answers ----

    def _options_of(self, asked: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
        """A task's generation arguments as options; --model_args comes first. What cannot be done is refused."""
        options: dict[str, Any] = {}
        until = asked.get("until") or []
        options["stop"] = tuple(text for text in ([until] if isinstance(until, str) else until) if text)
        for key, value in asked.items():
            if key in ("until", "max_length") or value in _GREEDY.get(key, ()):
                continue
            if key in ("max_gen_toks", "max_new_tokens", "max_tokens"):
                options["gen_length"] = int(value)
            elif key == "do_sample":
                if not asked.get("temperature"):
                    raise ValueError("do_sample: found it without a temperature, needed one")
            elif _options.known(key, _capi.FOR_REQUEST):
                options[key] = value
            else:
                raise ValueError(f"gen_kwargs: found {key}, needed an option that llada.options('request') lists")
        return tuple(sorted({**options, **self._request_options}.items()))

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        groups: dict[tuple[tuple[str, Any], ...], list[int]] = {}
        for number, request in enumerate(requests):
            groups.setdefault(self._options_of(dict(request.args[1])), []).append(number)
        found = [""] * len(requests)
        with tqdm(total=len(requests), desc="llada: generate_until", disable=disable_tqdm) as bar:
            for options, numbers in groups.items():
                prompts = (self.tok_encode(requests[number].args[0]) for number in numbers)
                answers = self._model.generate_many(prompts, streams=self._streams, **dict(options))
                for number, answer in zip(numbers, answers):
                    found[number] = answer.text
                    self.cache_hook.add_partial("generate_until", requests[number].args, answer.text)
                    bar.update()
        return found


def main() -> None:
    """The harness's command line."""
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()


if __name__ == "__main__":
    main()
