package abi

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// assertions is a source file that compiles where the header's structs and constants
// are those of this package, plus off bytes at the last field.
func assertions(off int) string {
	var b strings.Builder
	b.WriteString("#include <stddef.h>\n#include \"abi.h\"\n")
	check := func(format string, args ...any) {
		claim := fmt.Sprintf(format, args...)
		fmt.Fprintf(&b, "static_assert(%s, \"as Go sees it: %s\");\n", claim, claim)
	}
	for name, value := range cConstants {
		check("%s == %d", name, value)
	}
	for i, s := range cStructs {
		check("sizeof(struct %s) == %d", s.name, s.layout.Size())
		for j, field := range s.fields {
			f := s.layout.Field(j)
			at := int(f.Offset)
			if i == len(cStructs)-1 && j == len(s.fields)-1 {
				at += off
			}
			check("offsetof(struct %s, %s) == %d", s.name, field, at)
			check("sizeof(%s::%s) == %d", s.name, field, f.Type.Size())
		}
	}
	return b.String()
}

// compile compiles text as a file of that extension and returns what the compiler said.
func compile(t *testing.T, text, ext, compiler string, args ...string) ([]byte, error) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the compilers that matter are those of Linux and macOS")
	}
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("no %s on this machine", compiler)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "layout"+ext)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	include, err := filepath.Abs("../../../kernels")
	require.NoError(t, err)
	cmd := exec.Command(compiler, append(args, "-I"+include, file)...)
	cmd.Dir = dir
	return cmd.CombinedOutput()
}

// Every compiler that reads the header lays its structs out as Go does. nvcc looks at
// the assertions twice, for the host and for the device.
func TestLayout(t *testing.T) {
	for name, args := range map[string][]string{
		"c++":     {".cpp", "c++", "-std=c++17", "-Wall", "-Wextra", "-Wpadded", "-Werror", "-pedantic", "-fsyntax-only"},
		"clang++": {".cpp", "clang++", "-std=c++17", "-Wall", "-Wextra", "-Wpadded", "-Werror", "-pedantic", "-fsyntax-only"},
		"nvcc":    {".cu", "nvcc", "-std=c++17", "-arch=sm_80", "-c", "-o", "layout.o"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := compile(t, assertions(0), args[0], args[1], args[2:]...)
			require.NoError(t, err, "%s", out)
			out, err = compile(t, assertions(1), args[0], args[1], args[2:]...)
			require.Error(t, err, "a wrong offset must not compile")
			require.Contains(t, string(out), "as Go sees it: offsetof(struct "+cStructs[len(cStructs)-1].name)
		})
	}
}

// The header itself is C99, and stays within what the Metal compiler takes: C++14,
// which has the types without an include.
func TestHeaderLanguages(t *testing.T) {
	metal := "typedef unsigned int uint32_t;\ntypedef long int64_t;\ntypedef unsigned long uint64_t;\n#include \"abi.h\"\nfkv_attend_args held;\n"
	for name, args := range map[string][]string{
		"C99":   {"#include \"abi.h\"\nstruct fkv_attend_args held;\n", ".c", "cc", "-std=c99"},
		"Metal": {metal, ".cpp", "c++", "-std=c++14", "-D__METAL_VERSION__=310"},
		"clang": {metal, ".cpp", "clang++", "-std=c++14", "-D__METAL_VERSION__=310"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := compile(t, args[0], args[1], args[2], append(args[3:], "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only")...)
			require.NoError(t, err, "%s", out)
		})
	}
}

func TestEncode(t *testing.T) {
	a := AppendArgs{Tokens: 0x01020304, QStride: -2}
	b := a.Encode()
	require.Len(t, b, int(unsafe.Sizeof(a)))
	require.Equal(t, uint32(len(b)), a.Size)
	require.LessOrEqual(t, len(b), MaxArgs)
	// The devices are little endian, and so is every host that has one.
	require.Equal(t, []byte{byte(len(b)), 0, 0, 0}, b[:4])
	at := unsafe.Offsetof(a.Tokens)
	require.Equal(t, []byte{4, 3, 2, 1}, b[at:at+4])
	at = unsafe.Offsetof(a.QStride)
	require.Equal(t, append([]byte{0xfe}, bytes.Repeat([]byte{0xff}, 7)...), b[at:at+8])
}

var record [MaxArgs]byte

func TestEncodeDoesNotAllocate(t *testing.T) {
	n := testing.AllocsPerRun(100, func() {
		a := AttendArgs{Seqs: 3}
		copy(record[:], a.Encode())
	})
	require.Zero(t, n)
}

// What every struct of scalars must be for the launch path.
func TestStructs(t *testing.T) {
	widest := uintptr(0)
	for _, s := range cStructs {
		require.Len(t, s.fields, s.layout.NumField(), s.name)
		require.Zero(t, s.layout.Size()%8, s.name)
		if strings.HasSuffix(s.name, "_args") {
			require.Equal(t, "Size", s.layout.Field(0).Name, s.name)
			widest = max(widest, s.layout.Size())
		}
	}
	require.EqualValues(t, MaxArgs, widest)
	require.EqualValues(t, 4*ItemWords, unsafe.Sizeof(AttendItem{}))
	require.EqualValues(t, MaxBuffers, AttendBuffers)
}
