package cpu

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// The budget of a container is that of its control group.
func TestContainerMemory(t *testing.T) {
	file := func(name, text string) fstest.MapFS { return fstest.MapFS{name: {Data: []byte(text)}} }
	require.Equal(t, int64(1<<30), containerMemory(file("memory.max", "1073741824\n")))
	require.Equal(t, int64(1<<29), containerMemory(file("memory/memory.limit_in_bytes", "536870912\n")))
	for _, none := range []fstest.MapFS{{}, file("memory.max", "max\n"), file("memory.max", "-1"), file("memory.max", "x"), file("memory.max", "")} {
		require.Zero(t, containerMemory(none))
	}
}
