"""Functions that no tensor program stands for, in Python."""

# ruff: noqa
import random
import time


# refuses: open|call|function|file|with
def reads(path):
    with open(path) as file:
        return len(file.read())


# refuses: print|call|function
def prints(a):
    total = 0
    for value in a:
        print(value)
        total += value
    return total


# refuses: random|call|function
def noise(n):
    return [random.random() for _ in range(n)]


# refuses: time|call|function
def stamp(n):
    return time.time() + n


# refuses: recurs|calls itself
def factorial(n):
    if n <= 1:
        return 1
    return n * factorial(n - 1)


# refuses: while|iterations|condition|trip
def digits(n):
    count = 0
    while n > 0:
        n //= 10
        count += 1
    return count


# refuses: break|early|leaves
def until_negative(a):
    total = 0
    for value in a:
        if value < 0:
            break
        total += value
    return total


# refuses: dict|type|literal|subscript|expression
def counts(a):
    table = {}
    for value in a:
        table[value] = table.get(value, 0) + 1
    return table


# refuses: try|except
def careful(a, b, n):
    out = []
    for i in range(n):
        try:
            out.append(a[i] // b[i])
        except ZeroDivisionError:
            out.append(0)
    return out


# refuses: yield|generator
def squares(n):
    for i in range(n):
        yield i * i


# refuses: global|state
def remembers(n):
    global last
    last = n
    return n


# refuses: lambda|call|function|nested
def composed(a, n):
    f = lambda x: x + 1
    return [f(a[i]) for i in range(n)]


# refuses: index|subscript|data|scatter|position
def histogram(a, bins):
    for value in a:
        bins[value] += 1


# refuses: append|condition|data|filter|length|if
def positives(a):
    return [value for value in a if value > 0]


# refuses: eval|exec|call|function
def evaluates(text, n):
    total = 0
    for i in range(n):
        total += eval(text)
    return total


# refuses: string|str|type|text|format|literal
def joined(a):
    out = ""
    for value in a:
        out += str(value)
    return out


# refuses: del|statement
def shrinks(a):
    del a[0]
    return a


# refuses: append|lengthen|iterat|changes|grow
def grows(a):
    for value in a:
        a.append(value)


# refuses: *|argument|parameter|variadic
def variadic(*values):
    total = 0
    for value in values:
        total += value
    return total


# refuses: async|await
async def waits(n):
    return n


# refuses: not defined|undefined|no value|before|unbound|name
def unbound(n):
    total += n
    return total


class Counter:
    def step(self, n):
        self.total += n


# refuses: attribute|method|object|type
def walks(thing, n):
    for i in range(n):
        thing.step(i)
    return thing.total


# refuses: alias|same|row|share|\*
def shared_rows(n):
    out = [[0] * n] * n
    for i in range(n):
        out[i][0] = i
    return out


# restricted: apart|overlap|alias|same|share
def shift_between(a, b, n):
    for i in range(n):
        b[i] = a[i + 1]
