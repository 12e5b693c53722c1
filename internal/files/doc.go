// Package files opens directories and files that are private to their owner, for stores that hold prompts. It follows no symbolic link, blocks on no
// pipe, refuses what other users could read or change, and locks files for one process.
package files
