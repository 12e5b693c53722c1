"""Renders the templates beside this file as transformers does, with Jinja2, into rendered.json."""

import datetime
import json
import pathlib

import jinja2.ext
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller):
        return caller()


def refuse(why):
    raise jinja2.TemplateError(why)


env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
env.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
env.globals["raise_exception"] = refuse
env.globals["strftime_now"] = datetime.datetime(2026, 3, 5, 9, 7).strftime


def say(*parts):
    return [dict(role=role, content=content) for role, content in parts]


one = say(("user", " Hello, who\nare you? "))
two = one + say(("assistant", "<think>\nA greeting.\n</think>\n\nI am a model. "), ("user", "Größe {{ 1 }} \"quoted\"\n"))
system = say(("system", "Be brief.\nBe kind. "))
conversations = {"one": one, "two": two, "system, one": system + one, "system, two": system + two, "out of turn": one + one}

here = pathlib.Path(__file__).parent
out = []
for file in sorted(here.glob("*.jinja")):
    template = env.from_string(file.read_text())
    for name, messages in conversations.items():
        for answer in (True, False):
            case = dict(template=file.name, name=name, messages=messages, answer=answer)
            try:
                case["text"] = template.render(messages=messages, add_generation_prompt=answer, bos_token="<s>", eos_token="</s>", tools=None, documents=None)
            except jinja2.TemplateError as error:
                case["refused"] = str(error)
            out.append(case)
(here / "rendered.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")
