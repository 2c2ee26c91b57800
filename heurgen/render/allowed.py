def check(text):
    pass
