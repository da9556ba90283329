module github.com/batonzk/baton

go 1.25
