//go:build race

package recipes

// UnderRace says that the race detector is on, under which all takes ten times as
// long: what only repeats itself is then done less.
const UnderRace = true
