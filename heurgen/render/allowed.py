def check(text): pass
