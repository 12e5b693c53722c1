package main

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// encoded is a line of assembly that has an instruction as a word, and its mnemonic.
var encoded = regexp.MustCompile(`WORD \$0x([0-9a-f]{8}) // (.*)`)

// Every word that a kernel has is the instruction that stands behind it, as the GNU
// assembler encodes it.
func TestWordsAreTheirMnemonics(t *testing.T) {
	as, err := exec.LookPath("aarch64-linux-gnu-as")
	if err != nil {
		t.Skip("aarch64-linux-gnu-as is not installed")
	}
	words := map[string]string{} // by mnemonic
	var source strings.Builder
	source.WriteString(".arch armv8.2-a+dotprod\n")
	var order []string
	for _, f := range files {
		g := newGenerator("cpu")
		f.write(g)
		for _, m := range encoded.FindAllStringSubmatch(g.text.String(), -1) {
			word, mnemonic := m[1], m[2]
			if known, ok := words[mnemonic]; ok && known != word {
				t.Fatalf("%s is %s and %s", mnemonic, known, word)
			} else if !ok {
				words[mnemonic] = word
				order = append(order, mnemonic)
				fmt.Fprintln(&source, mnemonic)
			}
		}
	}
	dir := t.TempDir()
	text, object := filepath.Join(dir, "words.s"), filepath.Join(dir, "words.o")
	if err := os.WriteFile(text, []byte(source.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(as, "-o", object, text).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := elf.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	code, err := file.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	if len(code) != 4*len(order) {
		t.Fatalf("%d bytes of code, want %d instructions", len(code), len(order))
	}
	for i, mnemonic := range order {
		if got := fmt.Sprintf("%08x", binary.LittleEndian.Uint32(code[4*i:])); got != words[mnemonic] {
			t.Errorf("%s: is %s, but was written as %s", mnemonic, got, words[mnemonic])
		}
	}
	t.Logf("%d instructions", len(order))
}
