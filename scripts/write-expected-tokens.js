// Writes expected.json beside the tokenizer.json of each FOLDER: tokens and texts as
// Hugging Face's own implementation gives them, which TestPublishedTokenizers compares.
//
//	npm install tokenizers && node scripts/write-expected-tokens.js FOLDER...
//	TEXTS=cmd/internal/tokenizer/testdata/texts.json node scripts/write-expected-tokens.js cmd/internal/tokenizer/testdata/*/
//
// The texts are those of the file TEXTS, or made here: words of many scripts, spaces, controls, marks, emoji, and
// characters taken at random. The same SEED makes the same texts.
const fs = require("fs");
const path = require("path");
const { createRequire } = require("module");
const { Tokenizer } = createRequire(path.join(process.cwd(), "x.js"))("tokenizers");

let seed = Number(process.env.SEED || 1);
const random = (n) => Math.floor(((seed = (seed * 1664525 + 1013904223) >>> 0) / 2 ** 32) * n);
const pick = (list) => list[random(list.length)];

const words = ("the Quick brown FOX It's I'LL we'Ve don't O'Reilly 'Tis naïve café Ångström ﬁne İstanbul straße ΑΒΓ δεζ привет Мир שלום " +
	"عَرَبِيّ नमस्ते 你好世界 こんにちは カタカナ 한국어 สวัสดี f(x){return x+1;} HTTPServer camelCase snake_case 3.14159 12345678 1/2 ½ Ⅷ ٣٤ ４２ " +
	"<b>bold</b> http://a.b/c?d=e#h $100 €5 ... --- !!! «q» “q” ‘q’ …").split(" ");
const odd = ["\n", "\r\n", "\t", "  ", "   ", "\n\n", " \n", "\u00a0", "\u3000", "\u2028", "\u0085", "\u200b", "\u200d", "\ufeff", "\u180e", "\0", "\x1b",
	"👍🏽", "👩‍👩‍👧‍👦", "🇩🇪", "e\u0301", "o\u0308\u0323", "\u1100\u1161\u11a8", "\u0301", "\u212b", "'ſ", "'LL", "\u212a", "ﬆ", "ẞ", "▁", "▁▁", "Ġ", "<0x0A>",
	"<s>", "</s>", "<unk>", "<bos>", "<mask>", "<|endoftext|>", "<|im_start|>", "<tool_call>", "<|begin_of_text|>", "<｜fim▁hole｜>", "<unused5>", "<|start|>",
	"\u{10ffff}", "\u{e000}", "\u{1d400}", "\u{20000}", "ǅ", "ʰ", "〇", "\u20dd"];
const ranges = [[0x20, 0x7f], [0, 0x20], [0x80, 0x250], [0x300, 0x530], [0x590, 0x700], [0x900, 0xa00], [0xe00, 0xe80], [0x1100, 0x1200],
	[0x1e00, 0x2300], [0x2500, 0x2800], [0x3000, 0x3100], [0x4e00, 0x9fff], [0xac00, 0xd7a4], [0xe000, 0xfffe], [0x10000, 0x10400], [0x1d400, 0x1fa00]];

function text() {
	let out = "";
	for (let n = 1 + random(pick([3, 10, 30])); n > 0; n--) {
		switch (random(4)) {
		case 0:
			out += pick(odd).repeat(random(10) ? 1 : 1 + random(12));
			break;
		case 1:
			for (let [from, to] = pick(ranges), m = 1 + random(5); m > 0; m--) out += String.fromCodePoint(from + random(to - from));
			break;
		default:
			out += pick(words) + pick([" ", " ", "  ", "\n", ", ", ""]);
		}
	}
	return out;
}

const texts = process.env.TEXTS ? JSON.parse(fs.readFileSync(process.env.TEXTS)) : ["", " ", "Hello, world!", " a", "a ", "\n", "Hello\n\n\nworld  \n  x   ", "a".repeat(3000), " ".repeat(500), "ab ".repeat(500), "=".repeat(600), "1234567890".repeat(20)];
while (!process.env.TEXTS && texts.length < 1000) texts.push(text());

(async () => {
	for (const folder of process.argv.slice(2)) {
		const tokenizer = Tokenizer.fromFile(path.join(folder, "tokenizer.json"));
		const cases = [];
		for (const text of texts) {
			const ids = (await tokenizer.encode(text, null, { addSpecialTokens: true })).getIds();
			cases.push(JSON.stringify({ text, ids, decoded: await tokenizer.decode(ids, true) }));
		}
		fs.writeFileSync(path.join(folder, "expected.json"), "[" + cases.join(",\n") + "]\n");
	}
})();
