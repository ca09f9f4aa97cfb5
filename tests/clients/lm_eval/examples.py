"""What the task files beside this take from eval/eval_public.jsonl: the examples of one task, in the file's order."""

TEMPLATE = ("<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{}")


def _only(task):
    return lambda dataset: dataset.filter(lambda example: example["task"] == task)


sort, story_sums, choice = _only("sort"), _only("gsm-mini"), _only("choice")


def letters(example):
    return [" A", " B", " C", " D"]


def reasoned(example):
    """A chat's text up to the letter that is asked for."""
    return TEMPLATE.format(example["prompt"], example["response"][: example["response"].rindex(" ")])
