module hearth.lan/bellows

go 1.24
