package driver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// compiler runs the C compiler with the toolkit's headers in reach; it skips the
// test where there is no compiler or no toolkit.
type compiler struct{ args []string }

func newCompiler(t *testing.T) compiler {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler (cc) to read cuda.h with")
	}
	c := compiler{[]string{"-std=gnu11", "-I.", "-idirafter", "/usr/local/cuda/include"}}
	if home := os.Getenv("CUDA_HOME"); home != "" {
		c.args = append(c.args, "-I", filepath.Join(home, "include")) // left out where it is the system's
	}
	if _, err := c.run(t, "#include <cuda.h>\n", "-fsyntax-only"); err != nil {
		t.Skip("the CUDA toolkit's cuda.h is not installed (scripts/unpack-cuda-toolkit)")
	}
	return c
}

// run compiles a program and returns what the compiler prints.
func (c compiler) run(t *testing.T, source string, args ...string) (string, error) {
	file := filepath.Join(t.TempDir(), "check.c")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	out, err := exec.Command("cc", append(append(args, c.args...), file)...).CombinedOutput()
	return string(out), err
}

// prints compiles and runs a program and returns what it prints.
func (c compiler) prints(t *testing.T, source string) string {
	program := filepath.Join(t.TempDir(), "check")
	out, err := c.run(t, source, "-o", program)
	require.NoError(t, err, "%s\n%s", out, source)
	printed, err := exec.Command(program).Output()
	require.NoError(t, err)
	return string(printed)
}

func read(t *testing.T, name string) string {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// The cuda.h of CUDA_HOME is read, not one that a distribution has put among the system's headers.
func TestHeadersOfTheToolkitThatIsNamed(t *testing.T) {
	home, system := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(home, "include"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, "include", "cuda.h"), []byte("enum { WHOSE = 1 };\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(system, "cuda.h"), []byte("enum { WHOSE = 2 };\n"), 0o600))
	t.Setenv("C_INCLUDE_PATH", system)
	const program = "#include <cuda.h>\n#include <stdio.h>\nint main(void) { printf(\"%d\", WHOSE); }\n"
	t.Setenv("CUDA_HOME", home)
	require.Equal(t, "1", newCompiler(t).prints(t, program))
	t.Setenv("CUDA_HOME", "/usr") // whose headers come last
	require.Equal(t, "2", newCompiler(t).prints(t, program))
}

// prototypes is a program that compiles if each of the calls has the type that
// cuda.h gives it.
func prototypes(calls string) string {
	return `#include <cuda.h>
#define CALL(name, parameters) _Static_assert(__builtin_types_compatible_p(__typeof__(&name), CUresult (*) parameters), #name " differs");
` + calls
}

func TestPrototypesAreThoseOfTheToolkit(t *testing.T) {
	c := newCompiler(t)
	calls := read(t, "calls.h")
	out, err := c.run(t, prototypes(calls), "-fsyntax-only")
	require.NoError(t, err, out)

	for have, wrong := range map[string]string{
		"cuMemAlloc_v2, (CUdeviceptr *ptr":              "cuMemAlloc_v2, (unsigned int *ptr",
		"cuEventElapsedTime, (float *":                  "cuEventElapsedTime, (double *",
		"cuStreamWaitEvent, (CUstream stream, CUevent":  "cuStreamWaitEvent, (CUevent stream, CUstream",
		"cuMemGetInfo_v2, (size_t *available, size_t *": "cuMemGetInfo_v2, (size_t *available, size_t *used, size_t *",
	} {
		planted := strings.Replace(calls, have, wrong, 1)
		require.NotEqual(t, calls, planted)
		out, err := c.run(t, prototypes(planted), "-fsyntax-only")
		require.Error(t, err)
		require.Contains(t, out, have[:strings.Index(have, ",")]+" differs")
	}
}

// layout is a program that prints every constant, the size of every type and the
// place of every field that types.h names, as an include defines them.
func layout(types, include string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#include <stddef.h>\n#include <stdio.h>\n%s\nint main(void) {\n", include)
	print := func(expression string) {
		fmt.Fprintf(&b, "    printf(\"%%s = %%lld\\n\", %q, (long long)(%s));\n", expression, expression)
	}
	for _, m := range regexp.MustCompile(`\b(CU\w+) = -?\d`).FindAllStringSubmatch(types, -1) {
		print(m[1])
	}
	for _, m := range regexp.MustCompile(`typedef [\w ]+?\*?(CU\w+);`).FindAllStringSubmatch(types, -1) {
		print("sizeof(" + m[1] + ")")
	}
	for _, m := range regexp.MustCompile(`(?s)typedef struct \{(.*?)\} (\w+);`).FindAllStringSubmatch(types, -1) {
		print("sizeof(" + m[2] + ")")
		for _, f := range regexp.MustCompile(`(\w+)(\[\d+\])?;`).FindAllStringSubmatch(m[1], -1) {
			print("offsetof(" + m[2] + ", " + f[1] + ")")
		}
	}
	b.WriteString("    return 0;\n}\n")
	return b.String()
}

func TestTypesAreThoseOfTheToolkit(t *testing.T) {
	c := newCompiler(t)
	types := read(t, "types.h")
	want := c.prints(t, layout(types, "#include <cuda.h>"))
	require.Contains(t, want, "CUDA_ERROR_LAUNCH_FAILED = 719\n")
	require.Contains(t, want, "sizeof(CUdeviceptr) = 8\n")
	require.Contains(t, want, "offsetof(CUmemPoolProps, reserved) = ")
	require.Equal(t, want, c.prints(t, layout(types, types)))

	for have, wrong := range map[string]string{
		"RELEASE_THRESHOLD = 4":            "RELEASE_THRESHOLD = 5",
		"typedef int CUdevice;":            "typedef long CUdevice;",
		"int allocType;\n":                 "long allocType;\n",
		"int handleTypes;\n":               "int handleTypes, more;\n",
		"unsigned char reserved[56];\n":    "unsigned char reserved[48];\n",
		"CU_EVENT_DISABLE_TIMING = 2":      "CU_EVENT_DISABLE_TIMING = 1",
		"CU_POINTER_ATTRIBUTE_CONTEXT = 1": "CU_POINTER_ATTRIBUTE_CONTEXT = 2",
	} {
		planted := strings.Replace(types, have, wrong, 1)
		require.NotEqual(t, types, planted)
		require.NotEqual(t, want, c.prints(t, layout(types, planted)), wrong)
	}
}
