// Package files opens directories and files that are their owner's alone, as stores of prompts need them: it follows no link, waits for no
// pipe, refuses what others could read or change, and locks for one process.
package files
